import { openCrashRun } from './crash-run.ts'

// Runs in a child process: <story> <disk> <bucket> <failpoint or name> <pass or count> <layout>
const [story, disk = '', bucket = '', name = '', count = '1', layout] = process.argv.slice(2)
const layoutName = layout === 'versioned' ? layout : 'mirror'

let passes = 0
function killAt(failpoint: string): void {
  if (failpoint === name && ++passes === Number(count)) process.kill(process.pid, 'SIGKILL')
}

/** Two turns and the end; the kill comes wherever the parent wants it. */
async function runTurns(): Promise<void> {
  const run = await openCrashRun({ disk, bucket, failpoint: killAt, layoutName })
  for (const turn of ['t8', 't9']) {
    await run.turn(turn, () => run.storage.open('app', 'nexus.budget').put('last', turn))
    process.stdout.write(`stored ${turn}\n`)
  }
  await run.stop()
}

/** Writes rows of its own into the store that all processes of the machine share, storing after each. */
async function runRows(): Promise<void> {
  const run = await openCrashRun({ disk, bucket })
  const storage = run.storage.open('app', 'nexus.budget')
  const signal = new AbortController().signal
  for (let row = 1; row <= Number(count); row++) {
    storage.put(name, String(row))
    const { error } = await run.durability.shared.snapshot(run.storage, signal)
    if (error !== undefined) throw error
  }
  await run.durability.abandon()
  await run.storage.closeAll()
  await run.storage.dispose()
}

await (story === 'rows' ? runRows() : runTurns())
process.exit(0)
