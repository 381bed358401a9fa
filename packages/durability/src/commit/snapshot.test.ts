import { createHash } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { InvalidKeyError } from '@nexus/objectstore'
import { withoutCapabilities } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  age,
  describeTree,
  Lab,
  leftovers,
  link,
  storeOf,
  TREE_KEY,
  write,
  type Host,
} from '../../test/durability-fixture.ts'
import { parseManifest } from '../mirror/manifest/parse.ts'
import { parseMarker } from '../mirror/marker.ts'
import { SnapshotMemory } from '../capture/memory.ts'
import type { Layout } from '../layout/layout.ts'

let lab: Lab
let a: Host
beforeEach(() => {
  lab = new Lab()
  a = lab.host()
})
afterEach(() => lab.remove())

const sha = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')
const puts = (): string[] => lab.backend.faults.calls.filter(({ op }) => op === 'put').map(({ key }) => key)
const opsSince = (from: number): string[] =>
  lab.backend.faults.calls.slice(from).map(({ op, key }) => (key === '' ? op : `${op} ${key}`))

function putBlob(host: Host, content: string): string {
  const digest = sha(content)
  const path = `blobs/${digest.slice(0, 2)}/${digest}`
  write(host, `${path}.bin`, content)
  write(host, `${path}.meta`, `text/plain\n${content.length}\n`)
  return path
}

/** Runs something when an object has been put, by the n-th put. */
function duringPut(nth: number, happens: () => void): void {
  const put = lab.backend.put.bind(lab.backend)
  let count = 0
  lab.backend.put = async (...args) => {
    if (++count === nth) happens()
    await put(...args)
  }
}

/** Every entry of the committed manifest describes the bytes in the store. */
function expectExact(except: string[] = []): void {
  for (const path of lab.committed?.objects ?? []) {
    if (except.includes(path)) continue
    const bytes = lab.backend.objects.get(`${TREE_KEY}/${path}`)?.bytes
    expect([path, lab.committed?.entries[path]]).toEqual([
      path,
      expect.objectContaining({ size: bytes?.length, sha256: sha(bytes ?? '') }),
    ])
  }
}

describe('a snapshot', () => {
  it('restores to the same tree: bytes, modes, times, empty directories, links', async () => {
    write(a, 'context/conversation.jsonl', '{"role":"user"}\n')
    write(a, 'files/run.sh', '#!/bin/sh\n', 0o755)
    write(a, 'files/secret', 'hush', 0o600)
    write(a, 'files/empty', '')
    mkdirSync(join(a.dir, 'files/nothing/here'), { recursive: true, mode: 0o700 })
    mkdirSync(join(a.dir, 'files/open'), { mode: 0o755 })
    chmodSync(join(a.dir, 'files/open'), 0o755)
    link(a, 'files/link', 'run.sh')
    link(a, 'files/dangling', '/nowhere/at/all')
    age(a, 'files/secret')
    const result = await lab.snapshot(a)
    expect(result).toMatchObject({ objects: 4, objectsUploaded: 4, objectsSkipped: 0, bytesSkipped: 0, unstored: [] })
    expect(result.bytesUploaded).toBe(result.bytes)
    const b = lab.host({ empty: true })
    expect(await lab.hydrate(b)).toMatchObject({ outcome: 'hydrated', objects: 4, bytes: result.bytes })
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    expectExact()
    expect(leftovers(a.root)).toEqual([])
    expect(leftovers(b.root)).toEqual([])
  })

  it('commits in one order only: objects, flush, manifest, flush, marker, flush', async () => {
    write(a, 'files/one', '1')
    const order: string[] = []
    await lab.snapshot(a, {
      beforeCommit: async (pair) => {
        order.push(`noted ${pair.generation} ${pair.nonce} after ${lab.backend.faults.calls.length} calls`)
      },
    })
    expect(opsSince(0)).toEqual([
      `put ${TREE_KEY}/files/one`,
      'flush',
      `put ${TREE_KEY}.manifest/manifest.json`,
      'flush',
      `put ${TREE_KEY}.snapshot.json`,
      'flush',
    ])
    // Noted on our own disk when all objects are durable, and before the manifest is on its way.
    expect(order).toEqual(['noted 1 nonce-1 after 2 calls'])
  })

  it('writes a manifest and a marker that say the same', async () => {
    write(a, 'files/one', 'one')
    const result = await lab.snapshot(a, {
      trigger: 'request',
      turnId: 't9',
      mixedFrom: { generation: 7, paths: ['x'] },
    })
    const stored = (key: string): Buffer => lab.backend.objects.get(key)?.bytes ?? Buffer.alloc(0)
    const manifest = parseManifest(stored(`${TREE_KEY}.manifest/manifest.json`), 'sess-1')
    expect(manifest).toEqual(result.committed)
    expect(manifest).toMatchObject({
      _schema_version: 2,
      session_id: 'sess-1',
      generation: 1,
      nonce: 'nonce-1',
      instance_id: 'instance-1',
      key_prefix: TREE_KEY,
      objects: ['files/one'],
      mixed_from: { generation: 7, paths: ['x'] },
    })
    expect(stored(`${TREE_KEY}.manifest/manifest.json`).length).toBe(result.manifestBytes)
    expect(parseMarker(stored(`${TREE_KEY}.snapshot.json`), 'sess-1')).toMatchObject({
      generation: 1,
      sequence: 1,
      trigger: 'request',
      turn_id: 't9',
      objects: 1,
      bytes: 3,
    })
  })

  it('deletes nothing in the store, whatever was deleted here', async () => {
    write(a, 'files/one', '1')
    write(a, 'files/two', '2')
    await lab.snapshot(a)
    unlinkSync(join(a.dir, 'files/one'))
    const { committed: manifest } = await lab.snapshot(a)
    expect(manifest.objects).toEqual(['files/two'])
    expect(lab.object('files/one')).toBe('1')
    expect(lab.backend.faults.calls.filter(({ op }) => op === 'delete')).toEqual([])
  })

  it('keeps what never crosses here: lock, sidecars, temporary files', async () => {
    write(a, 'session.lock', 'pid')
    write(a, 'plugins/p/store.db-wal', 'wal')
    write(a, 'files/.nexus-tmp-0123456789abcdef', 'half')
    write(a, 'files/my-journal', 'dear diary')
    const { committed: manifest } = await lab.snapshot(a)
    expect(manifest.objects).toEqual(['files/my-journal'])
  })

  it('uploads no byte of what a link points to', async () => {
    const outside = lab.host()
    write(outside, 'credentials', 'secret')
    link(a, 'files/creds', join(outside.dir, 'credentials'))
    link(a, 'files/dir', outside.dir)
    link(a, 'files/loop', '..')
    link(a, 'files/self', 'self')
    const { committed: manifest } = await lab.snapshot(a)
    expect(manifest.objects).toEqual([])
    expect(Object.keys(manifest.links)).toEqual(['files/creds', 'files/dir', 'files/loop', 'files/self'])
    expect(puts()).toHaveLength(2)
  })

  it('skips FIFOs with one warning, not one at every turn', async () => {
    write(a, 'files/a', 'a')
    execFileSync('mkfifo', [join(a.dir, 'files/fifo')])
    const memory = new SnapshotMemory()
    await lab.snapshot(a, { memory })
    await lab.snapshot(a, { memory })
    expect(lab.committed?.objects).toEqual(['files/a'])
    expect(lab.lines.filter(({ fields }) => fields['path'] === 'files/fifo')).toHaveLength(1)
  })

  it('leaves nothing behind when it fails, and touches no file of the session', async () => {
    write(a, 'files/a', 'a')
    const before = describeTree(a.dir)
    lab.backend.faults.failWhen(({ key }) => key.endsWith('manifest.json'))
    await expect(lab.snapshot(a)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(leftovers(a.root)).toEqual([])
    expect(describeTree(a.dir)).toEqual(before)
  })

  it('ends only when its parts are staged, also where the commit failed before it asked for them', async () => {
    write(a, 'files/a', 'a')
    const committed = { ...(await lab.snapshot(a)).committed, journal: { last_seq: 9 } }
    const layout = { commit: () => Promise.reject(new Error('the store is gone')) } as unknown as Layout
    // Its journal is gone, so staging fails too, later: nobody asked, and it must not be left unhandled.
    await expect(lab.snapshot(a, { layout, committed })).rejects.toThrow('the store is gone')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(leftovers(a.root)).toEqual([])
  })

  it('does not begin to commit when noting the pair fails', async () => {
    write(a, 'files/a', 'a')
    const failing = lab.snapshot(a, { beforeCommit: () => Promise.reject(new Error('disk full')) })
    await expect(failing).rejects.toThrow('disk full')
    expect(puts()).toEqual([`${TREE_KEY}/files/a`])
  })

  it('stops at its signal, at whatever call that fires', async () => {
    for (let n = 0; n < 5; n++) write(a, `files/${n}`, `${n}`)
    putBlob(a, 'blob')
    await lab.snapshot(a)
    const calls = lab.backend.faults.calls.length
    for (let nth = 1; nth <= calls; nth++) {
      const abort = new AbortController()
      const from = lab.backend.faults.calls.length
      lab.backend.faults.hang(({ index }) => {
        if (index !== from + nth) return false
        setImmediate(() => abort.abort(new Error('enough')))
        return true
      })
      const ended = await lab.snapshot(a, { signal: abort.signal }).then(
        () => 'enough',
        (error: unknown) => (error as Error).message,
      )
      expect(ended).toBe('enough')
      lab.backend.faults.heal()
      expect(leftovers(a.root)).toEqual([])
    }
    await expect(lab.snapshot(a, { signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before')
  })

  it('of a session directory that is gone fails, and never stores an empty session', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    renameSync(a.dir, `${a.dir}-away`)
    await expect(lab.snapshot(a)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(lab.committed?.objects).toEqual(['files/a'])
  })

  it('refuses a bad session id before anything is touched', async () => {
    await expect(lab.snapshot(a, { sessionId: '../x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(lab.backend.faults.calls).toEqual([])
    expect(leftovers(a.root)).toEqual([])
  })

  it('fails with LOCAL_IO where no staging directory can be made', async () => {
    writeFileSync(join(a.root, 'file'), '')
    await expect(lab.snapshot(a, { sessionsRoot: join(a.root, 'file') })).rejects.toMatchObject({ code: 'LOCAL_IO' })
  })
})

describe('immutable files', () => {
  it('are skipped when the listing shows the blob at its size, and its metadata as committed', async () => {
    write(a, 'files/a', 'a')
    const blob = putBlob(a, 'payload')
    await lab.snapshot(a)
    const from = lab.backend.faults.calls.length
    const result = await lab.snapshot(a)
    expect(result).toMatchObject({ objects: 3, objectsUploaded: 1, objectsSkipped: 2 })
    expect(opsSince(from).filter((op) => op.includes('blobs'))).toEqual([`list ${TREE_KEY}/blobs`])
    expect(result.committed.entries[`${blob}.bin`]).toMatchObject({ sha256: sha('payload'), size: 7 })
    expectExact()
  })

  it.each([
    ['is missing', undefined],
    ['is cut short', 'pay'],
  ])('are uploaded again when the stored one %s', async (_what, content) => {
    const blob = putBlob(a, 'payload')
    await lab.snapshot(a)
    for (const name of ['bin', 'meta']) {
      lab.plant(`${TREE_KEY}/${blob}.${name}`, content)
      expect(await lab.snapshot(a)).toMatchObject({ objectsUploaded: 1 })
      expectExact()
    }
  })

  it('of a first snapshot are skipped when the write-through was there before', async () => {
    const blob = putBlob(a, 'payload')
    lab.plant(`${TREE_KEY}/${blob}.bin`, 'payload')
    const result = await lab.snapshot(a)
    // The metadata's content is not in its name, and nothing committed says what it is.
    expect(result).toMatchObject({ objectsUploaded: 1, objectsSkipped: 1 })
    expectExact()
  })

  it('are uploaded when metadata has changed at the same size', async () => {
    const blob = putBlob(a, 'payload')
    await lab.snapshot(a)
    write(a, `${blob}.meta`, 'text/plane\n7\n')
    await lab.snapshot(a)
    expect(lab.object(`${blob}.meta`)).toBe('text/plane\n7\n')
    expectExact()
  })

  it('are all uploaded, with everything else, where the store can not list', async () => {
    const blob = putBlob(a, 'payload')
    await lab.snapshot(a)
    lab.backend.faults.failWhen(
      ({ op }) => op === 'list',
      Object.assign(new Error('denied'), { errorClass: 'permission' }),
    )
    const result = await lab.snapshot(a)
    expect(result).toMatchObject({ objectsUploaded: 2, objectsSkipped: 0 })
    expect(result.committed.objects).toEqual([`${blob}.bin`, `${blob}.meta`])
    expect(lab.warnings()).toContainEqual(expect.stringContaining('can not be listed'))
  })

  it('wait for a store whose listing fails for the moment', async () => {
    putBlob(a, 'payload')
    await lab.snapshot(a)
    lab.backend.faults.failWhen(({ op }) => op === 'list')
    await expect(lab.snapshot(a)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
  })

  it('that were evicted here stay named, and come back with the next hydration', async () => {
    const blob = putBlob(a, 'payload')
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    unlinkSync(join(a.dir, `${blob}.bin`))
    unlinkSync(join(a.dir, `${blob}.meta`))
    const result = await lab.snapshot(a)
    expect(result.committed.objects).toEqual([`${blob}.bin`, `${blob}.meta`, 'files/a'])
    await lab.snapshot(a)
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)[`${blob}.bin`]).toContain(sha('payload').slice(0, 12))
  })

  it('go on being named when they are journal segments that were swept here, and no others', async () => {
    const [first, second] = ['journal/events-001.jsonl.zst', 'journal/events-002.jsonl.zst']
    write(a, first, 'one')
    write(a, second, 'two')
    await lab.snapshot(a)
    unlinkSync(join(a.dir, first))
    unlinkSync(join(a.dir, second))
    const swept = { name: 'events-001.jsonl.zst', last_seq: 7, size_bytes: 3, sha256: sha('one') }
    write(a, 'journal/swept.json', JSON.stringify({ schema_version: 1, segments: [swept] }))
    const result = await lab.snapshot(a)
    expect(result.committed.objects).toEqual([first, 'journal/swept.json'])
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)[first]).toContain(sha('one').slice(0, 12))
  })

  it('that were evicted here and lost there are listed, and brick nothing', async () => {
    const blob = putBlob(a, 'payload')
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    unlinkSync(join(a.dir, `${blob}.bin`))
    lab.plant(`${TREE_KEY}/${blob}.bin`, undefined)
    const result = await lab.snapshot(a)
    expect(result.unstored).toEqual([`${blob}.bin`])
    expect(result.committed.objects).toEqual([`${blob}.meta`, 'files/a'])
    expect(await lab.hydrate(lab.host({ empty: true }))).toMatchObject({ outcome: 'hydrated' })
  })

  it('whose content is not what the name says are stored and described as they are', async () => {
    const blob = putBlob(a, 'payload')
    write(a, `${blob}.bin`, 'PAYLOAD')
    await lab.snapshot(a)
    await lab.snapshot(a)
    expectExact()
    expect(lab.warnings()).toContainEqual(expect.stringContaining('does not hold what its name says'))
  })

  it('only look like blobs where the directory does not fit, and are then ordinary files', async () => {
    const digest = sha('x')
    write(a, `blobs/00/${digest}.bin`, 'x')
    await lab.snapshot(a)
    expect(await lab.snapshot(a)).toMatchObject({ objectsUploaded: 1, objectsSkipped: 0 })
  })

  it('that a failed snapshot may have overwritten are not trusted, though the committed digest fits again', async () => {
    const memory = new SnapshotMemory()
    write(a, 'journal/events-001.jsonl.zst', 'generation one')
    age(a, 'journal/events-001.jsonl.zst')
    await lab.snapshot(a, { memory })
    // A rewind makes another segment of the same number and size; its snapshot dies after the upload.
    write(a, 'journal/events-001.jsonl.zst', 'something else')
    lab.backend.faults.failWhen(({ key }) => key.endsWith('manifest.json'))
    await expect(lab.snapshot(a, { memory })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    lab.backend.faults.heal()
    expect(lab.object('journal/events-001.jsonl.zst')).toBe('something else')
    write(a, 'journal/events-001.jsonl.zst', 'generation one')
    await lab.snapshot(a, { memory })
    expectExact()
    expect(await lab.snapshot(a, { memory })).toMatchObject({ objectsSkipped: 1 })
  })
})

describe('a sealed segment', () => {
  const path = 'journal/events-001.jsonl.zst'

  it('is uploaded again when its number is used anew at the same size after a prune', async () => {
    write(a, path, 'first life!')
    await lab.snapshot(a)
    expect(await lab.snapshot(a)).toMatchObject({ objectsSkipped: 1 })
    unlinkSync(join(a.dir, path))
    await lab.snapshot(a)
    write(a, path, 'second life')
    await lab.snapshot(a)
    expect(lab.object(path)).toBe('second life')
    expectExact()
  })

  it('is uploaded again when it changed at the same size between two snapshots', async () => {
    write(a, path, 'first life!')
    await lab.snapshot(a)
    write(a, path, 'second life')
    age(a, path)
    await lab.snapshot(a)
    expect(lab.object(path)).toBe('second life')
  })

  it('is read once, not at every turn, as long as nothing about it changes', async () => {
    const memory = new SnapshotMemory()
    write(a, path, 'first life!')
    await new Promise((resolve) => setTimeout(resolve, 60))
    await lab.snapshot(a, { memory })
    const stat = { size: 11, mode: 0, mtimeNs: 0n, ctimeNs: 0n, ino: 0n, dev: 0n }
    expect(memory.digestOf(path, stat)).toBeUndefined()
    expect(await lab.snapshot(a, { memory })).toMatchObject({ objectsSkipped: 1 })
    write(a, path, 'second life')
    await lab.snapshot(a, { memory })
    expectExact()
  })
})

describe('what can not be stored', () => {
  it('is listed, and everything else is committed', async () => {
    write(a, 'files/ok', 'ok')
    write(a, 'files/back\\slash', 'x')
    writeFileSync(Buffer.concat([Buffer.from(join(a.dir, 'files/')), Buffer.from([0xff])]), 'x')
    const result = await lab.snapshot(a)
    expect(result.committed.objects).toEqual(['files/ok'])
    expect(result.unstored).toEqual(['files/\\xff', 'files/back\\slash'])
    expect(result.committed.unstored).toEqual(result.unstored)
    const reasons = lab.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields['why'])
    expect(reasons).toEqual(expect.arrayContaining(['its name is not UTF-8', 'its name contains a backslash']))
  })

  it('keeps its committed version named', async () => {
    write(a, 'files/a', 'committed')
    write(a, 'files/b', 'b')
    await lab.snapshot(a)
    const put = lab.backend.put.bind(lab.backend)
    lab.backend.put = async (key, path, options) => {
      if (key.endsWith('files/a')) throw new InvalidKeyError(key, 'contains CR or LF')
      await put(key, path, options)
    }
    const from = lab.backend.faults.calls.length
    write(a, 'files/a', 'changed and refused')
    const result = await lab.snapshot(a)
    expect(opsSince(from).filter((op) => op.startsWith('get'))).toEqual([])
    expect(result.unstored).toEqual(['files/a'])
    expect(result.committed.objects).toEqual(['files/a', 'files/b'])
    expectExact()
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)['files/a']).toContain(sha('committed').slice(0, 12))
  })

  it('keeps named what is in the store, when a snapshot that failed has put a later version there', async () => {
    const memory = new SnapshotMemory()
    write(a, 'files/a', 'committed')
    await lab.snapshot(a, { memory })
    write(a, 'files/a', 'put, and never committed')
    lab.backend.faults.failWhen(({ key }) => key.endsWith('manifest.json'))
    await expect(lab.snapshot(a, { memory })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    lab.backend.faults.heal()
    const put = lab.backend.put.bind(lab.backend)
    lab.backend.put = async (key, path, options) => {
      if (key.endsWith('files/a')) throw new InvalidKeyError(key, 'is refused')
      await put(key, path, options)
    }
    const { unstored } = await lab.snapshot(a, { memory })
    expect(unstored).toEqual(['files/a'])
    expect(lab.object('files/a')).toBe('put, and never committed')
    expectExact()
  })

  it('is a path of more than 1024 bytes as a key, refused by name, beside one of 255 bytes in its last part', async () => {
    const long = `files/${'d'.repeat(200)}/${'e'.repeat(200)}/${'f'.repeat(200)}/${'g'.repeat(200)}/${'h'.repeat(200)}`
    write(a, long, 'too long')
    write(a, `files/${'n'.repeat(255)}`, 'fits')
    const result = await lab.snapshot(a)
    expect(result.committed.objects).toEqual([`files/${'n'.repeat(255)}`])
    expect(result.unstored).toEqual([long])
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)[`files/${'n'.repeat(255)}`]).toBeDefined()
  })
})

describe('a tree that changes during the snapshot', () => {
  it('loses neither name of a file that is renamed while others are uploaded', async () => {
    for (let n = 0; n < 30; n++) write(a, `files/f${String(n).padStart(2, '0')}`, `${n}`)
    duringPut(1, () => renameSync(join(a.dir, 'files/f29'), join(a.dir, 'files/renamed')))
    const result = await lab.snapshot(a, { concurrency: 1 })
    expect(result.objects).toBe(30)
    expect(result.committed.objects).toContain('files/renamed')
    expect(result.committed.objects).not.toContain('files/f29')
    expectExact()
  })

  it('finds a whole directory under its new name', async () => {
    for (let n = 0; n < 10; n++) write(a, `files/old/f${n}`, `${n}`)
    duringPut(4, () => renameSync(join(a.dir, 'files/old'), join(a.dir, 'files/new')))
    const { committed: manifest } = await lab.snapshot(a, { concurrency: 1 })
    expect(manifest.objects).toEqual(Array.from({ length: 10 }, (_, n) => `files/new/f${n}`))
    expectExact()
  })

  it('goes on when files vanish for good', async () => {
    for (let n = 0; n < 10; n++) write(a, `files/f${n}`, `${n}`)
    duringPut(2, () => rmSync(join(a.dir, 'files'), { recursive: true }))
    const { committed: manifest } = await lab.snapshot(a, { concurrency: 1 })
    expect(manifest.objects).toEqual([])
    expect(await lab.hydrate(lab.host({ empty: true }))).toMatchObject({ outcome: 'hydrated', objects: 0 })
  })

  it('stores a link, and nothing behind it, where a file was when the walk passed', async () => {
    const outside = lab.host()
    write(outside, 'secret', 'not yours')
    write(a, 'files/a', 'a')
    write(a, 'files/z', 'z')
    duringPut(1, () => {
      for (const path of ['files/a', 'files/z']) {
        unlinkSync(join(a.dir, path))
        symlinkSync(join(outside.dir, 'secret'), join(a.dir, path))
      }
    })
    const { committed: manifest } = await lab.snapshot(a, { concurrency: 1 })
    expect(Object.keys(manifest.links)).toEqual(['files/a', 'files/z'])
    expect(manifest.objects).toEqual([])
    expect(lab.object('files/z')).toBeUndefined()
  })

  it('is exact for files that are appended to at every put', async () => {
    write(a, 'files/log', 'line\n')
    for (let n = 0; n < 20; n++) write(a, `files/f${n}`, `${n}`)
    const put = lab.backend.put.bind(lab.backend)
    lab.backend.put = async (...args) => {
      appendFileSync(join(a.dir, 'files/log'), 'line\n')
      await put(...args)
      appendFileSync(join(a.dir, 'files/log'), 'line\n')
    }
    for (let turn = 0; turn < 3; turn++) {
      await lab.snapshot(a)
      expectExact()
      expect(lab.object('files/log')).toMatch(/^(line\n)+$/)
    }
  })

  it('commits every turn while files come and go', async () => {
    write(a, 'files/stays', 'here')
    link(a, 'files/dangling', '/no/such/place')
    const put = lab.backend.put.bind(lab.backend)
    let n = 0
    lab.backend.put = async (...args) => {
      write(a, `files/temp-${++n}`, 'x')
      rmSync(join(a.dir, `files/temp-${n - 1}`), { force: true })
      await put(...args)
    }
    for (let turn = 0; turn < 50; turn++) {
      const { committed: manifest } = await lab.snapshot(a)
      expect(manifest.objects).toContain('files/stays')
      expect(manifest.links['files/dangling']).toEqual({ target: '/no/such/place' })
    }
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)['files/dangling']).toBe('link /no/such/place')
  })
})

describe('the order of uploads', () => {
  it('takes nothing from the committed generation before everything harmless is stored', async () => {
    write(a, 'files/rewritten', 'old content')
    write(a, 'files/appended', 'old')
    write(a, 'files/same', 'same')
    age(a, 'files/same')
    await lab.snapshot(a)
    write(a, 'files/rewritten', 'new')
    appendFileSync(join(a.dir, 'files/appended'), ' and more')
    for (let n = 0; n < 40; n++) write(a, `files/new-${n}`, `${n}`)
    const blob = putBlob(a, 'payload')
    const from = puts().length
    await lab.snapshot(a, { concurrency: 1 })
    const order = puts()
      .slice(from)
      .map((key) => key.slice(TREE_KEY.length + 1))
      .slice(0, -2)
    const overwriting = order.slice(-2)
    expect(overwriting).toEqual(['files/appended', 'files/rewritten'])
    expect(order.slice(0, 2).toSorted()).toEqual([`${blob}.bin`, `${blob}.meta`].toSorted())
    expect(order).toHaveLength(45)
  })

  it('leaves the committed generation whole when it dies among the new files', async () => {
    write(a, 'files/rewritten', 'old content')
    await lab.snapshot(a)
    const before = describeTree(a.dir)
    write(a, 'files/rewritten', 'new')
    for (let n = 0; n < 20; n++) write(a, `files/new-${n}`, `${n}`)
    lab.backend.faults.failWhen(({ key }) => key.endsWith('files/new-19'))
    await expect(lab.snapshot(a)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    lab.backend.faults.heal()
    const b = lab.host({ empty: true })
    const result = await lab.hydrate(b)
    expect(result.mixed).toBeUndefined()
    expect(describeTree(b.dir)).toEqual(before)
  })
})

describe('after a manifest of version 1', () => {
  beforeEach(async () => {
    const objects = ['files/a', 'files/gone', 'files/refused']
    const v1 = { _schema_version: 1, session_id: 'sess-1', generation: 4, objects }
    lab.plant(`${TREE_KEY}.manifest/manifest.json`, JSON.stringify(v1))
    for (const path of objects) lab.plant(`${TREE_KEY}/${path}`, `v1 ${path}`)
    lab.committed = parseManifest(JSON.stringify(v1), 'sess-1')
  })

  it('everything is stored anew, and what can not be stored is described as the store has it', async () => {
    write(a, 'files/a', 'new')
    write(a, 'files/refused', 'never arrives')
    const put = lab.backend.put.bind(lab.backend)
    lab.backend.put = async (key, path, options) => {
      if (key.endsWith('files/refused')) throw new InvalidKeyError(key, 'is refused')
      await put(key, path, options)
    }
    const { committed: manifest, unstored } = await lab.snapshot(a)
    expect(manifest).toMatchObject({ _schema_version: 2 })
    expect(manifest.objects).toEqual(['files/a', 'files/refused'])
    expect(unstored).toEqual(['files/refused'])
    expect(lab.object('files/refused')).toBe('v1 files/refused')
    expectExact()
  })
})

describe('without a store that has more than the five methods', () => {
  it('a snapshot is the same', async () => {
    write(a, 'files/a', 'a')
    const store = storeOf(withoutCapabilities(lab.backend, ['get', 'putIfAbsent', 'close', 'classify']))
    const { committed: manifest } = await lab.snapshot(a, { store })
    expect(manifest.objects).toEqual(['files/a'])
    const b = lab.host({ empty: true })
    expect(await lab.hydrate(b, { store })).toMatchObject({ outcome: 'hydrated' })
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    expect(readdirSync(a.root)).toEqual(['sess-1'])
  })
})
