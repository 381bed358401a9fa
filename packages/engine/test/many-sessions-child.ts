// Opens many sessions with a store, commits each twice, closes them, and says what that took of the machine.
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import '@nexus/objectstore-fs'
import { openSession, silentLogger } from '../src/index.ts'

const [, , dir = '', count = ''] = process.argv
const bucket = join(dir, 'bucket')
mkdirSync(bucket)

const threads = (): number => readdirSync('/proc/self/task').length
const descriptors = (): number => readdirSync('/proc/self/fd').length

const rss = (): number => Math.round(process.memoryUsage.rss() / 2 ** 20)

const before = { rssMiB: rss(), descriptors: descriptors() }
let [rssMiB, mostThreads] = [0, 0]
const measure = (): void => {
  rssMiB = Math.max(rssMiB, rss())
  mostThreads = Math.max(mostThreads, threads())
}
const timer = setInterval(measure, 20)

const ids = Array.from({ length: Number(count) }, (_, index) => `session-${index}`)
const sessions = await Promise.all(
  ids.map((id) => openSession({ id, root: join(dir, 'root'), store: { backend: 'fs', bucket }, logger: silentLogger })),
)
const opened = descriptors() - before.descriptors
for (const turn of ['1', '2']) {
  await Promise.all(
    sessions.map(async (session) => {
      await session.workspace.writeFile(`files/${turn}`, session.id.repeat(1000))
      session.storage().put(turn, session.id)
      await session.commit()
    }),
  )
}
const committed = descriptors() - before.descriptors
const startedMs = performance.now()
await Promise.all(sessions.map((session) => session.close()))
const closeMs = performance.now() - startedMs
clearInterval(timer)
measure()
const left = readdirSync('/proc/self/fd').map(targetOf)
process.send?.({
  grownMiB: rssMiB - before.rssMiB,
  threads: mostThreads,
  openedEach: opened / ids.length,
  committedEach: committed / ids.length,
  closeMs,
  left: left.filter((path) => path.startsWith(dir)),
})
process.disconnect()

function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return 'that of the listing itself'
  }
}
