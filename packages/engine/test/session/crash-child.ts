// Works on a session and kills itself at a failpoint. What it was told to have happened, it prints first.
import { writeSync } from 'node:fs'
import { createSessionTree } from '../../src/session/create-tree.ts'
import { openWorkspace } from '../../src/session/workspace.ts'

const [root, fatal, passes] = process.argv.slice(2) as [string, string, string]

let left = Number(passes)
const failpoint = (name: string): void => {
  if (name !== fatal) return
  left -= 1
  if (left === 0) process.kill(process.pid, 'SIGKILL')
}

/** Reaches the parent before anything else happens. */
function acknowledge(what: string): void {
  writeSync(1, `${what}\n`)
}

const dir = await createSessionTree(root, 's1', { failpoint })
acknowledge('created')
const workspace = await openWorkspace({ id: 's1', dir, failpoint })
acknowledge('opened')
for (let n = 1; n <= 40; n++) {
  await workspace.appendFile('files/log', `${n}:${'x'.repeat(n * 100)}\n`)
  acknowledge(`append ${n}`)
  await workspace.writeFile('files/state', `${n}:${'y'.repeat(n * 20_000)}`)
  acknowledge(`write ${n}`)
}
acknowledge('survived')
