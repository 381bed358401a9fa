// Imports an archive over a session that is there, and kills itself at a failpoint.
import process from 'node:process'
import { importSession } from '../src/index.ts'

const [archive = '', sessionsRoot = '', at = ''] = process.argv.slice(2)
await importSession(archive, {
  sessionsRoot,
  overwrite: true,
  failpoint: (name) => {
    if (name === at) process.kill(process.pid, 'SIGKILL')
  },
})
