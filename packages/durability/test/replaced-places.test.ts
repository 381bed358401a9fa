import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '../../engine/src/index.ts'
import { tempDir } from '@nexus/host/testing'
import { expect, it, onTestFinished } from 'vitest'
import { EngineLab, history, rows, scribe } from '../../engine/test/engine-fixture.ts'

const NESTED = 'nexus.agent.sub/researcher'
const SECRET = 'not of this session'

/** A session with a committed turn, a blob and a database of a plugin whose id has two segments. */
async function committed(): Promise<{ lab: EngineLab; a: Engine; blob: string }> {
  const lab = new EngineLab()
  onTestFinished(() => lab.close())
  const a = await lab.booted('a')
  a.storage.open('session', NESTED).put('row', 'kept')
  const { sha256 } = await (await a.session.blobStore()).put(Buffer.from('blob content'))
  await a.submitInput('one')
  expect(a.status().durability).toMatchObject({ lastSnapshot: { ok: true } })
  return { lab, a, blob: sha256 }
}

type Swap = (dir: string, outside: string) => void

const linkTo =
  (path: string, how: 'moved' | 'empty' | 'secret' | 'inside'): Swap =>
  (dir, outside) => {
    const place = join(dir, path)
    if (how === 'inside') {
      renameSync(place, join(dir, 'elsewhere'))
      return symlinkSync(join(dir, 'elsewhere'), place)
    }
    if (how === 'moved') renameSync(place, join(outside, 'moved'))
    else {
      rmSync(place, { recursive: true })
      mkdirSync(join(outside, 'moved'))
    }
    // As many names of the engine as could be asked for behind the link.
    if (how === 'secret') {
      for (const name of ['store.db', 'events.jsonl', 'header.json', 'session.json', 'conversation.jsonl', 'x'])
        writeFileSync(join(outside, 'moved', name), SECRET)
    }
    symlinkSync(join(outside, 'moved'), place)
  }
const file =
  (path: string, content: string): Swap =>
  (dir) => {
    rmSync(join(dir, path), { recursive: true })
    writeFileSync(join(dir, path), content)
  }
const directory =
  (path: string): Swap =>
  (dir) => {
    rmSync(join(dir, path), { recursive: true })
    mkdirSync(join(dir, path))
    writeFileSync(join(dir, path, 'x'), 'x')
  }
const gone =
  (path: string): Swap =>
  (dir) =>
    rmSync(join(dir, path), { recursive: true })

const DIRECTORIES = [
  'journal',
  'metadata',
  'context',
  'files',
  'blobs',
  'plugins',
  `plugins/${scribe.id}`,
  'plugins/nexus.agent.sub',
]
const FILES = [
  'journal/events.jsonl',
  'journal/header.json',
  'metadata/session.json',
  'metadata/config-snapshot.yaml',
  'context/conversation.jsonl',
  `plugins/${scribe.id}/store.db`,
  `plugins/${NESTED}/store.db`,
]

const SWAPS: [string, Swap][] = [
  ...DIRECTORIES.flatMap((path): [string, Swap][] => [
    [`${path} -> a link to itself outside`, linkTo(path, 'moved')],
    [`${path} -> a link to itself inside`, linkTo(path, 'inside')],
    [`${path} -> a link to an empty directory`, linkTo(path, 'empty')],
    [`${path} -> a link to what is not ours`, linkTo(path, 'secret')],
    [`${path} -> a file`, file(path, 'x')],
    [`${path} is gone`, gone(path)],
  ]),
  ...FILES.flatMap((path): [string, Swap][] => [
    [`${path} -> a link to itself outside`, linkTo(path, 'moved')],
    [`${path} -> a directory`, directory(path)],
    [`${path} is emptied`, (dir) => truncateSync(join(dir, path), 0)],
    [`${path} is gone`, gone(path)],
  ]),
  [
    'a shard of the blobs -> a link',
    (dir, outside) => linkTo(`blobs/${readdirSync(join(dir, 'blobs'))[0]}`, 'secret')(dir, outside),
  ],
]

/** Where nothing of the commit is missed by it: no file was committed, and blobs may be evicted. */
const HARMLESS = ['files is gone', 'blobs is gone']

it.each(SWAPS)('%s: no commit that hides what was committed, none that can not be resumed', async (name, swap) => {
  const { lab, a, blob } = await committed()
  const outside = tempDir()
  swap(a.session.dir, outside)
  const told = await a.commit().then(
    ({ unstored }) => unstored,
    (error: Error) => [error.message],
  )
  // Never in silence: refused, or named.
  expect(told.length > 0).toBe(!HARMLESS.includes(name))
  for (const { bytes } of lab.backend.objects.values()) expect(bytes.includes(SECRET)).toBe(false)
  await a.abandon()

  const b = await lab.booted('b', { recallSessionId: a.sessionId })
  expect(rows(b)).toEqual(['one'])
  expect(b.storage.open('session', NESTED).get('row')?.toString()).toBe('kept')
  expect(await history(b)).toBe('one\n')
  const { data } = await (await b.session.blobStore()).get(blob)
  expect(data.toString()).toBe('blob content')
  expect(b.status().lastSeq).toBeGreaterThan(1)
  await b.submitInput('two')
  expect(b.status().durability).toMatchObject({ lastSnapshot: { ok: true } })
})

it('a link in the place of a plugin directory does not bring the database of another session into the bucket', async () => {
  const { lab, a } = await committed()
  const victim = await lab.booted('a', { recallSessionId: 'victim' })
  victim.storage.open('session', scribe.id).put('password', SECRET)
  await victim.commit()
  renameSync(join(a.session.dir, 'plugins', scribe.id), join(a.session.dir, 'files/old'))
  symlinkSync(join(victim.session.dir, 'plugins', scribe.id), join(a.session.dir, 'plugins', scribe.id))
  const result = await a.commit()
  expect(result.unstored).toContain(`plugins/${scribe.id}/store.db`)
  const objects = [...lab.backend.objects].filter(([key]) => key.startsWith(`sessions/${a.sessionId}/`))
  for (const [key, { bytes }] of objects) expect([key, bytes.includes(SECRET)]).toEqual([key, false])
  unlinkSync(join(a.session.dir, 'plugins', scribe.id))
  renameSync(join(a.session.dir, 'files/old'), join(a.session.dir, 'plugins', scribe.id))
  expect((await a.commit()).unstored).toEqual([])
  expect(readFileSync(join(a.session.dir, 'plugins', scribe.id, 'store.db')).length).toBeGreaterThan(0)
})
