import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { layoutOf } from './layout-of.ts'
import { ObjectStore } from '@nexus/objectstore'
import { hydrateSession } from '../src/boot/hydrate.ts'
import { takeSnapshot } from '../src/commit/snapshot.ts'
import { DirectoryBackend } from './directory-backend.ts'
import { describeTree } from './durability-fixture.ts'

// Root may read a file of mode 000, so this runs as nobody: <an empty directory that it may write to>
const [base = ''] = process.argv.slice(2)
if (process.getuid?.() === 0) {
  process.setgroups?.([])
  process.setgid?.(65534)
  process.setuid?.(65534)
}

const root = join(base, 'a')
const dir = join(root, 's1')
const store = new ObjectStore(new DirectoryBackend(join(base, 'bucket')), { name: 'directory' })

function put(path: string, content: string, mode = 0o600): void {
  const at = join(dir, path)
  mkdirSync(join(at, '..'), { recursive: true, mode: 0o700 })
  writeFileSync(at, content)
  chmodSync(at, mode)
}

async function snapshot(
  generation: number,
  committed?: Parameters<typeof takeSnapshot>[0]['committed'],
): Promise<Awaited<ReturnType<typeof takeSnapshot>>> {
  return takeSnapshot({
    layout: layoutOf(store, 's1'),
    sessionId: 's1',
    sessionDir: dir,
    sessionsRoot: root,
    generation,
    nonce: 'n',
    instanceId: 'i',
    sequence: generation,
    trigger: 'turn',
    beforeCommit: async () => undefined,
    ...(committed === undefined ? {} : { committed }),
  })
}

async function hydrate(name: string): Promise<string> {
  const sessionsRoot = join(base, name)
  mkdirSync(sessionsRoot)
  await hydrateSession({
    layout: layoutOf(store, 's1'),
    sessionId: 's1',
    sessionsRoot,
    prepareStaging: async () => undefined,
    onMixed: 'fail',
  })
  return join(sessionsRoot, 's1')
}

put('files/readable', 'one')
put('files/secret', 'committed content')
put('files/closed/inside', 'committed inside')
symlinkSync('inside', join(dir, 'files/closed/link'))
mkdirSync(join(dir, 'files/closed/empty'), { mode: 0o700 })
put('files/read-only-dir/file', 'x', 0o400)
symlinkSync('file', join(dir, 'files/read-only-dir/link'))
chmodSync(join(dir, 'files/read-only-dir'), 0o500)
const first = await snapshot(1)
const firstTree = describeTree(dir)
const firstRestored = describeTree(await hydrate('b'))

writeFileSync(join(dir, 'files/secret'), 'changed, and then closed')
chmodSync(join(dir, 'files/secret'), 0o000)
put('files/new-secret', 'never committed', 0o000)
writeFileSync(join(dir, 'files/closed/inside'), 'changed inside')
chmodSync(join(dir, 'files/closed'), 0o000)
put('files/readable', 'two')
const second = await snapshot(2, first.committed)
chmodSync(join(dir, 'files/closed'), 0o700)
const restored = await hydrate('c')
chmodSync(join(restored, 'files/closed'), 0o700)
const secondRestored = describeTree(restored)

process.stdout.write(
  JSON.stringify({
    uid: process.getuid?.(),
    firstTree,
    firstRestored,
    firstUnstored: first.unstored,
    secondUnstored: second.unstored,
    secondObjects: second.committed.objects,
    closedMode: second.committed.dirs['files/closed']?.mode,
    links: Object.keys(second.committed.links),
    secondRestored,
  }),
)
process.exit(0)
