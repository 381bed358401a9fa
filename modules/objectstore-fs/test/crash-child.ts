// Runs one scenario on a bucket and dies by SIGKILL at the given failpoint. Prints a line when a step resolved, with a
// synchronous write: what the parent may hold the store to.
import { writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crashSteps, perform } from './crash-steps.ts'
import { openDirectBucket } from './direct-bucket.ts'

const [root = '', local = '', failpoint = '', nth = '1'] = process.argv.slice(2)
let left = Number(nth)
const bucket = openDirectBucket(root, {
  failpoint: (name) => {
    if (name === failpoint && --left === 0) process.kill(process.pid, 'SIGKILL')
  },
})

for (const [index, step] of crashSteps.entries()) {
  const path = join(local, String(index))
  writeFileSync(path, step.content ?? '')
  await perform(bucket, step, path)
  writeSync(1, `${index}\n`)
}
writeSync(1, 'end\n')
