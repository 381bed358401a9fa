import { createHash } from 'node:crypto'
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { layoutOf } from './layout-of.ts'
import { JournalWriter } from '@nexus/journal'
import { ObjectStore } from '@nexus/objectstore'
import { openStorageManager } from '@nexus/storage'
import { hydrateSession } from '../src/boot/hydrate.ts'
import { takeSnapshot } from '../src/commit/snapshot.ts'
import { DirectoryBackend } from './directory-backend.ts'

// Runs in a child process and kills it at the n-th pass of a failpoint:
// <snapshot|hydrate> <sessions root> <bucket> <failpoint> <pass>
const [action, root = '', bucket = '', failpointName, pass = '1'] = process.argv.slice(2)
const store = new ObjectStore(new DirectoryBackend(bucket), { name: 'directory' })
const dir = join(root, 's1')

let passes = 0
function failpoint(name: string): void {
  if (name === failpointName && ++passes === Number(pass)) process.kill(process.pid, 'SIGKILL')
}

async function runSnapshots(): Promise<void> {
  for (const sub of ['files', 'context', 'journal']) mkdirSync(join(dir, sub), { recursive: true, mode: 0o700 })
  const journal = await JournalWriter.open(join(dir, 'journal'), { fsync: 'none', rotateBytes: 1_000, sessionId: 's1' })
  const storage = openStorageManager({ sessionDir: dir, storageRoot: join(root, '.storage') })
  const { db } = storage.open('session', 'p')
  db.exec('create table turns (n integer)')
  let committed
  for (const generation of [1, 2]) {
    appendFileSync(join(dir, 'context/conversation.jsonl'), `turn ${generation}\n`)
    writeFileSync(join(dir, 'files/rewritten'), `generation ${generation}`)
    writeFileSync(join(dir, `files/new-${generation}`), `${generation}`)
    putBlob(`blob of ${generation}`)
    db.prepare('insert into turns values (?)').run(generation)
    for (let n = 0; n < 4; n++) append(journal, `event ${n} of ${generation}`)
    // The second turn ends in a rotation: what was committed moves into a sealed segment.
    if (generation === 2) await journal.turnEnded()
    const result = await takeSnapshot({
      layout: layoutOf(store, 's1', generation === 2 ? { failpoint } : {}),
      sessionId: 's1',
      sessionDir: dir,
      sessionsRoot: root,
      journal,
      storage,
      generation,
      nonce: `nonce ${generation}`,
      instanceId: 'child',
      sequence: generation,
      trigger: 'turn',
      concurrency: 2,
      beforeCommit: async () => undefined,
      ...(committed === undefined ? {} : { committed }),
      ...(generation === 2 ? { failpoint } : {}),
    })
    committed = result.committed
    process.stdout.write(`committed ${generation}\n`)
  }
  process.exit(0)
}

function append(journal: JournalWriter, text: string): void {
  const ts = '2026-01-01T00:00:00.000Z'
  journal.append({
    ts,
    type: 'x',
    event_id: text,
    source: 'test',
    session_id: 's1',
    depth: 0,
    payload: { text, pad: 'x'.repeat(50) },
  })
}

function putBlob(content: string): void {
  const sha = createHash('sha256').update(content).digest('hex')
  const base = join(dir, 'blobs', sha.slice(0, 2))
  mkdirSync(base, { recursive: true, mode: 0o700 })
  writeFileSync(join(base, `${sha}.bin`), content)
  writeFileSync(join(base, `${sha}.meta`), `text/plain\n${content.length}\n`)
}

async function runHydration(): Promise<void> {
  await hydrateSession({
    layout: layoutOf(store, 's1', { failpoint }),
    sessionId: 's1',
    sessionsRoot: root,
    prepareStaging: async (staging) => writeFileSync(join(staging, 'session.lock'), String(process.pid)),
    onMixed: 'fail',
    failpoint,
  })
  process.stdout.write('hydrated\n')
  process.exit(0)
}

await (action === 'snapshot' ? runSnapshots() : runHydration())
