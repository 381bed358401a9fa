import nodeFsModule, { appendFileSync, mkdirSync } from 'node:fs'
import { JournalWriter, restore, rewind, type FailpointName, type JournalFs } from '../src/index.ts'
import { event } from './support/events.ts'

/*
 * Runs one scenario and dies by SIGKILL at the nth visit of a failpoint. What was acknowledged until then is in the ack
 * file, a line of seq and id each. Exits with 0 when the place was never reached.
 *
 *   argv: scenario, journal directory, ack file, failpoint, n
 */
const [scenario, dir, ackPath, point, nth] = process.argv.slice(2) as [string, string, string, string, string]

let visits = 0

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

function failpoint(name: FailpointName): void {
  if (name === point && ++visits === Number(nth)) die()
}

function ack(seq: number, id: string): void {
  appendFileSync(ackPath, `${seq} ${id}\n`)
}

/** Writes half of what it is asked for and dies, at the nth write to a file whose name matches. */
function tornFs(matches: (path: string) => boolean): JournalFs {
  const paths = new Map<number, string>()
  return {
    ...nodeFsModule,
    openSync: ((path: string, ...rest: [string, number]) => {
      const fd = nodeFsModule.openSync(path, ...rest)
      paths.set(fd, path)
      return fd
    }) as JournalFs['openSync'],
    writeSync: ((fd: number, bytes: Buffer, offset: number, length: number) => {
      if (matches(paths.get(fd) ?? '') && ++visits === Number(nth)) {
        nodeFsModule.writeSync(fd, bytes, offset, Math.ceil(length / 2))
        die()
      }
      return nodeFsModule.writeSync(fd, bytes, offset, length)
    }) as JournalFs['writeSync'],
  }
}

/** The first sync fails, so that the lines have to move to a new file. */
function syncFailingOnce(): JournalFs {
  let failed = false
  return {
    ...nodeFsModule,
    fdatasync: ((fd: number, callback: (error: Error | null) => void) => {
      if (failed) return nodeFsModule.fdatasync(fd, callback)
      failed = true
      setImmediate(() => callback(new Error('EIO: injected')))
      return undefined
    }) as JournalFs['fdatasync'],
  }
}

function fsOf(name: string): JournalFs {
  // After a rotation the active file is one that was opened under its temporary name.
  if (name === 'torn-line') return tornFs((path) => /(?:events\.jsonl|-active)$/.test(path))
  if (name === 'torn-segment') return tornFs((path) => path.includes('.zst'))
  if (name === 'sync-fails') return syncFailingOnce()
  return nodeFsModule
}

/** Turns with write-through and buffered events; rotations while the next turn goes on; a snapshot in between. */
async function turns(): Promise<void> {
  const writer = await JournalWriter.open(dir, {
    fsync: 'turn-boundary',
    rotateBytes: 30_000,
    sessionId: 's1',
    failpoint,
    fs: fsOf(scenario),
  })
  for (let turn = 0; turn < 6; turn++) {
    const buffered: [number, string][] = []
    for (let i = 0; i < 60; i++) {
      const writeThrough = i % 20 === 0
      const record = event(writeThrough ? 'io.input' : 'note', { turn, i, text: 'é'.repeat(200) })
      const seq = writer.append(record, { writeThrough })
      buffered.push([seq, record.event_id])
      // A write-through line takes everything before it along.
      if (writeThrough && !writer.behind) for (const each of buffered.splice(0)) ack(...each)
      if (i % 10 === 0) await new Promise(setImmediate)
    }
    await writer.turnEnded()
    for (const each of buffered) ack(...each)
    if (turn === 3) {
      mkdirSync(`${dir}-snapshot`)
      await writer.snapshot(`${dir}-snapshot`)
    }
  }
  await writer.close()
}

switch (scenario) {
  case 'rewind':
    await rewind(dir, 25, { lock: 'private', failpoint })
    break
  case 'restore': {
    const { archive } = await rewind(dir, 25, { lock: 'private' })
    await restore(dir, archive, { lock: 'private', failpoint })
    break
  }
  case 'open':
    await (
      await JournalWriter.open(dir, { fsync: 'turn-boundary', rotateBytes: 30_000, sessionId: 's1', failpoint })
    ).close()
    break
  default:
    await turns()
}
