import { createHash } from 'node:crypto'
import nodeFs, {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '@nexus/objectstore'
import { withoutCapabilities } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  age,
  describeTree,
  Lab,
  leftovers,
  link,
  read,
  SESSION,
  storeOf,
  TREE_KEY,
  write,
  type Host,
} from '../../test/durability-fixture.ts'
import type { HydrateFs } from '../layout/staged-tree.ts'
import { serializeManifest, type Manifest } from '../mirror/manifest/manifest.ts'
import { pathRecord } from '../tree/committed.ts'

let lab: Lab
let a: Host
let b: Host
beforeEach(() => {
  lab = new Lab()
  a = lab.host()
  b = lab.host({ empty: true })
})
afterEach(() => lab.remove())

const sha = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')
const MANIFEST_KEY = `${TREE_KEY}.manifest/manifest.json`
const withoutGet = (): Backend => withoutCapabilities(lab.backend, ['get'])

/** Nothing at the session's path, and no staging directory. */
function expectNothing(host: Host = b): void {
  expect(readdirSync(host.root)).toEqual([])
}

async function failure(hydrating: Promise<unknown>): Promise<unknown> {
  return hydrating.then(
    () => undefined,
    (error: unknown) => error,
  )
}

/** Commits a manifest that no snapshot wrote. */
function commit(fields: Partial<Manifest>, contents: Record<string, string> = {}): void {
  const entries = pathRecord<Manifest['entries'][string]>()
  for (const [path, content] of Object.entries(contents)) {
    entries[path] = { size: content.length, mode: 0o600, mtime_ns: '1000000000', sha256: sha(content) }
    lab.plant(`${TREE_KEY}/${path}`, content)
  }
  const manifest: Manifest = {
    _schema_version: 2,
    session_id: SESSION,
    generation: 1,
    nonce: 'n',
    instance_id: 'i',
    completed_at: '',
    key_prefix: TREE_KEY,
    objects: Object.keys(entries).toSorted(),
    entries,
    dirs: {},
    links: {},
    journal: { last_seq: 0 },
    unstored: [],
    ...fields,
  }
  lab.plant(MANIFEST_KEY, serializeManifest(manifest))
}

describe('hydration of a session', () => {
  it('the store has never seen creates nothing and says so', async () => {
    lab.plant('sessions/sess-10/files/a', 'a neighbour')
    lab.plant('sessions/sess-10.manifest/manifest.json', '{}')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      expect(await lab.hydrate(b, { store })).toMatchObject({ outcome: 'never-seen', objects: 0, bytes: 0 })
      expectNothing()
    }
  })

  it('is never "never seen" when the store fails, at whatever call', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    for (const open of [() => lab.store, () => storeOf(withoutGet())]) {
      for (const errorClass of ['temporary', 'permission', 'permanent', 'throttled'] as const) {
        const from = lab.backend.faults.calls.length
        await lab.hydrate(lab.host({ empty: true }), { store: open() })
        const calls = lab.backend.faults.calls.length - from
        for (let nth = 1; nth <= calls; nth++) {
          const base = lab.backend.faults.calls.length
          lab.backend.faults.failWhen(
            ({ index }) => index === base + nth,
            Object.assign(new Error('no'), { errorClass }),
          )
          expect(await failure(lab.hydrate(b, { store: open() }))).toMatchObject({
            code: {
              temporary: 'UNAVAILABLE',
              permission: 'PERMISSION',
              permanent: 'PRECONDITION',
              throttled: 'THROTTLED',
            }[errorClass],
          })
          lab.backend.faults.heal()
          expectNothing()
        }
      }
    }
  })

  it('is refused where a tree exists, and leaves that alone', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    for (const make of [
      () => mkdirSync(b.dir),
      () => symlinkSync('/nowhere', b.dir),
      () => writeFileSync(b.dir, 'x'),
    ]) {
      make()
      const calls = lab.backend.faults.calls.length
      expect(await failure(lab.hydrate(b))).toMatchObject({ code: 'PRECONDITION', key: b.dir })
      expect(lab.backend.faults.calls).toHaveLength(calls)
      expect(lstatSync(b.dir)).toBeDefined()
      rmSync(b.dir, { recursive: true })
    }
  })

  it('gives way to a tree that appears while it runs', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    const failpoint = (name: string): void => {
      if (name !== 'hydrate:before-rename') return
      mkdirSync(b.dir)
      writeFileSync(join(b.dir, 'mine'), 'other process')
    }
    expect(await failure(lab.hydrate(b, { failpoint }))).toMatchObject({ code: 'PRECONDITION' })
    expect(readdirSync(b.dir)).toEqual(['mine'])
    expect(leftovers(b.root)).toEqual([])
  })

  it('has our lock in the tree from the first moment it can be seen', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    // Something that should not be there must not take its place.
    lab.plant(`${TREE_KEY}/session.lock`, 'of another machine')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      const seen: string[] = []
      const failpoint = (name: string): void => {
        if (name === 'hydrate:manifest-read') seen.push(...leftovers(host.root))
        if (name === 'hydrate:renamed') seen.push(read(host, 'session.lock'))
      }
      await lab.hydrate(host, { store, failpoint })
      expect(seen).toEqual([expect.stringMatching(/^\.hydrating-sess-1-[0-9a-f]{16}$/), 'ours'])
      expect(read(host, 'session.lock')).toBe('ours')
      expect(readdirSync(host.dir).toSorted()).toEqual(['files', 'session.lock'])
    }
  })

  it('fetches nothing when the lock can not be written', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    const calls = lab.backend.faults.calls.length
    const failing = lab.hydrate(b, { prepareStaging: () => Promise.reject(new Error('no lock')) })
    await expect(failing).rejects.toThrow('no lock')
    expect(lab.backend.faults.calls).toHaveLength(calls)
    expectNothing()
  })

  it('stops at its signal, at whatever call that fires, and leaves nothing', async () => {
    for (let n = 0; n < 3; n++) write(a, `files/${n}`, `${n}`)
    await lab.snapshot(a)
    for (const open of [() => lab.store, () => storeOf(withoutGet())]) {
      for (let nth = 1; nth <= 5; nth++) {
        const abort = new AbortController()
        const base = lab.backend.faults.calls.length
        lab.backend.faults.hang(({ index }) => {
          if (index !== base + nth) return false
          setImmediate(() => abort.abort(new Error('enough')))
          return true
        })
        const error = await failure(lab.hydrate(b, { store: open(), signal: abort.signal }))
        lab.backend.faults.heal()
        // The last ones are more than a hydration without `get` makes.
        rmSync(b.dir, { recursive: true, force: true })
        expect((error as Error | undefined)?.message ?? 'enough').toBe('enough')
        expectNothing()
      }
    }
  })
})

describe('fidelity', () => {
  it.each([0o077, 0o022, 0o000])('holds under umask %o: modes, empty directories, times, links', async (mask) => {
    write(a, 'files/run.sh', 'x', 0o755)
    write(a, 'files/secret', 'x', 0o600)
    write(a, 'files/shared', 'x', 0o666)
    write(a, 'files/frozen', 'x', 0o444)
    write(a, 'files/closed', 'x', 0o000)
    mkdirSync(join(a.dir, 'files/e/m/p/t/y'), { recursive: true, mode: 0o700 })
    mkdirSync(join(a.dir, 'files/world'))
    chmodSync(join(a.dir, 'files/world'), 0o777)
    write(a, 'files/locked/inside', 'x')
    link(a, 'files/locked/link', 'inside')
    chmodSync(join(a.dir, 'files/locked'), 0o500)
    for (const path of ['files/run.sh', 'files/secret']) age(a, path, 978_307_200)
    utimesSync(join(a.dir, 'files/shared'), 1_234_567_890.123456, 1_234_567_890.123456)
    const old = process.umask(mask)
    try {
      await lab.snapshot(a)
      await lab.hydrate(b)
    } finally {
      process.umask(old)
    }
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    expect(lstatSync(b.dir).mode & 0o777).toBe(0o700)
  })

  it('never restores setuid, setgid or sticky', async () => {
    write(a, 'files/root-shell', 'x')
    chmodSync(join(a.dir, 'files/root-shell'), 0o6755)
    mkdirSync(join(a.dir, 'files/sticky'))
    chmodSync(join(a.dir, 'files/sticky'), 0o1777)
    const { committed: manifest } = await lab.snapshot(a)
    expect(manifest.entries['files/root-shell']?.mode).toBe(0o755)
    const evil = serializeManifest(manifest as Manifest).replaceAll('"mode":493', '"mode":3565')
    lab.plant(MANIFEST_KEY, evil.replaceAll('"mode":511', '"mode":1023'))
    await lab.hydrate(b)
    expect(lstatSync(join(b.dir, 'files/root-shell')).mode & 0o7777).toBe(0o755)
    expect(lstatSync(join(b.dir, 'files/sticky')).mode & 0o7777).toBe(0o777)
  })

  it('restores times to the microsecond, before 1970 to the millisecond', async () => {
    write(a, 'files/a', 'a')
    const { committed: manifest } = await lab.snapshot(a)
    for (const [given, wanted] of [
      ['1795977823364999999', '1795977823364999000'],
      ['999999999000001000', '999999999000001000'],
      ['0', '0'],
      ['1', '0'],
      ['-86400123000000', '-86400123000000'],
    ] as const) {
      const entry = manifest.entries['files/a']
      if (entry !== undefined) entry.mtime_ns = given
      lab.plant(MANIFEST_KEY, serializeManifest(manifest as Manifest))
      const host = lab.host({ empty: true })
      await lab.hydrate(host)
      expect(lstatSync(join(host.dir, 'files/a'), { bigint: true }).mtimeNs).toBe(BigInt(wanted))
    }
  })

  it('keeps names apart that other file systems fold together', async () => {
    const files = {
      'files/\u00e9.md': 'nfc',
      'files/e\u0301.md': 'nfd',
      'files/A.txt': 'upper',
      'files/a.txt': 'lower',
    }
    for (const [path, content] of Object.entries(files)) write(a, path, content)
    await lab.snapshot(a)
    await lab.hydrate(b)
    for (const [path, content] of Object.entries(files)) expect(read(b, path)).toBe(content)
  })

  it('takes names that only look dangerous: .., __proto__, spaces, line ends, percent signs', async () => {
    const names = [
      'a..b',
      '..c',
      '...',
      '__proto__',
      'constructor',
      'a b',
      'a+b',
      'a%2Bb',
      'a\nb',
      'a\tb',
      '\u0004',
      '#?&',
      ' ',
    ]
    for (const name of names) write(a, `files/${name}`, `content of ${name}`)
    write(a, '__proto__/x', 'below')
    await lab.snapshot(a)
    await lab.hydrate(b)
    for (const name of names) expect(read(b, `files/${name}`)).toBe(`content of ${name}`)
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
  })

  it('restores hard links as files of their own, and links wherever they lead', async () => {
    write(a, 'files/store/pkg', 'code')
    mkdirSync(join(a.dir, 'files/node_modules'))
    chmodSync(join(a.dir, 'files/node_modules'), 0o700)
    linkSync(join(a.dir, 'files/store/pkg'), join(a.dir, 'files/node_modules/pkg'))
    link(a, 'files/inside', join(a.dir, 'files/store'))
    link(a, 'files/outside', '/usr/bin/python3')
    link(a, 'files/relative', '../context')
    await lab.snapshot(a)
    await lab.hydrate(b)
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
  })
})

describe('a damaged store', () => {
  const sabotages: [string, () => void][] = [
    ['cut', () => lab.plant(MANIFEST_KEY, lab.backend.objects.get(MANIFEST_KEY)?.bytes.subarray(0, 100) ?? '')],
    ['emptied', () => lab.plant(MANIFEST_KEY, '')],
    ['overwritten with garbage', () => lab.plant(MANIFEST_KEY, '\u0000\u0001garbage')],
  ]
  it.each(sabotages)('with its manifest %s fails the boot and names it', async (_what, sabotage) => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    sabotage()
    for (const store of [lab.store, storeOf(withoutGet())]) {
      expect(await failure(lab.hydrate(b, { store }))).toMatchObject({ code: 'CORRUPT', key: MANIFEST_KEY })
      expectNothing()
    }
  })

  it('with a manifest of an unknown version is refused with both versions named', async () => {
    commit({ _schema_version: 3 })
    expect(await failure(lab.hydrate(b))).toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/version 3.*1 to 2/s),
    })
    expectNothing()
  })

  it.each(['../x', '/etc/x', 'a/../../x', 'C:\\x', 'a\0b'])(
    'with a tampered manifest that names %j is refused before anything is fetched',
    async (path) => {
      const entries = { [path]: { size: 1, mode: 0o600, mtime_ns: '1', sha256: sha('x') } }
      commit({ objects: [path], entries })
      for (const store of [lab.store, storeOf(withoutGet())]) {
        expect(await failure(lab.hydrate(b, { store }))).toMatchObject({ code: 'CORRUPT', key: MANIFEST_KEY })
        expectNothing()
      }
    },
  )

  it('with a manifest that names our lock, sidecars or temporary files restores none of them', async () => {
    const local = ['session.lock', 'plugins/p/store.db-wal', 'files/.nexus-tmp-0123456789abcdef']
    commit(
      {
        links: { '.nexus-tmp-lock-0123456789abcdef': { target: '/etc/passwd' } },
        dirs: { '.nexus-tmp-x': { mode: 0o700 } },
      },
      Object.fromEntries([...local, 'files/a'].map((path) => [path, 'x'])),
    )
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      expect(await lab.hydrate(host, { store })).toMatchObject({ outcome: 'hydrated', objects: 1 })
      expect(Object.keys(describeTree(host.dir))).toEqual(['files', 'files/a'])
      expect(read(host, 'session.lock')).toBe('ours')
    }
    expect(lab.warnings()).toContainEqual(expect.stringContaining('never leaves a machine'))
  })

  it('with a manifest that names links in the places of the engine restores the others only', async () => {
    const target = '/etc'
    const misplaced = ['blobs', 'metadata/session.json', 'plugins/p', 'plugins/q/store.db']
    commit(
      { links: Object.fromEntries([...misplaced, 'files/l'].map((path) => [path, { target }])) },
      { 'files/a': 'x' },
    )
    await lab.hydrate(b)
    expect(Object.keys(describeTree(b.dir))).toEqual(['files', 'files/a', 'files/l'])
    expect(lab.warnings()).toContainEqual(expect.stringContaining('links where the engine writes'))
  })

  it('with a manifest that would write through a link is refused', async () => {
    const outside = lab.host()
    commit({ links: { l: { target: outside.dir } } }, { 'l/x': 'through' })
    expect(await failure(lab.hydrate(b))).toMatchObject({ code: 'CORRUPT' })
    expect(readdirSync(outside.dir)).toEqual([])
  })

  it('that lost a named object fails the boot and names it', async () => {
    write(a, 'files/a', 'a')
    write(a, 'files/b', 'b')
    await lab.snapshot(a)
    lab.plant(`${TREE_KEY}/files/b`, undefined)
    for (const store of [lab.store, storeOf(withoutGet())]) {
      expect(await failure(lab.hydrate(b, { store }))).toMatchObject({ code: 'CORRUPT', key: 'files/b' })
      expectNothing()
    }
  })

  it('that lost or changed a blob fails the boot and names it, whatever on_mixed says', async () => {
    const content = 'payload'
    const path = `blobs/${sha(content).slice(0, 2)}/${sha(content)}.bin`
    write(a, path, content)
    await lab.snapshot(a)
    for (const damage of ['PAYLOAD', 'pay', undefined]) {
      lab.plant(`${TREE_KEY}/${path}`, damage)
      for (const store of [lab.store, storeOf(withoutGet())]) {
        expect(await failure(lab.hydrate(b, { store, onMixed: 'warn' }))).toMatchObject({ code: 'CORRUPT', key: path })
        expectNothing()
      }
    }
  })

  it('that lost the manifest but has the commit marker is not taken for a first snapshot that failed', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    lab.plant(MANIFEST_KEY, undefined)
    expect(await failure(lab.hydrate(b))).toMatchObject({ code: 'CORRUPT', key: MANIFEST_KEY })
    expectNothing()
    // Also when the listing says that nothing is there.
    lab.backend.list = async () => []
    lab.backend.hydrate = async () => undefined
    expect(await failure(lab.hydrate(b))).toMatchObject({ code: 'CORRUPT' })
  })

  it('that answers with an empty listing loses nothing where objects are read by name', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    lab.backend.list = async () => []
    lab.backend.hydrate = async () => undefined
    expect(await lab.hydrate(b)).toMatchObject({ outcome: 'hydrated', objects: 1 })
  })

  it('that delivers short content once is asked again; twice, and that is no mixture but a failure', async () => {
    write(a, 'files/a', 'whole content')
    await lab.snapshot(a)
    const get = lab.backend.get.bind(lab.backend)
    let short = 1
    lab.backend.get = async (key, path, options) => {
      await get(key, path, options)
      if (key.endsWith('files/a') && short-- > 0) writeFileSync(path, 'whole')
    }
    expect(await lab.hydrate(b)).toMatchObject({ outcome: 'hydrated' })
    expect(read(b, 'files/a')).toBe('whole content')
    short = 100
    const host = lab.host({ empty: true })
    expect(await failure(lab.hydrate(host))).toMatchObject({ code: 'UNAVAILABLE', key: 'files/a' })
    expectNothing(host)
  })

  it('that has keys which break the rules is of no consequence for objects that are fetched by name', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    for (const key of [
      `${TREE_KEY}/../../etc/x`,
      `${TREE_KEY}//x`,
      `${TREE_KEY}/files\\x`,
      `${TREE_KEY}/files/a/below`,
    ]) {
      lab.backend.objects.set(key, { bytes: Buffer.from('x'), modTime: new Date() })
    }
    await lab.hydrate(b)
    expect(Object.keys(describeTree(b.dir))).toEqual(['files', 'files/a'])
  })

  it('that has keys which break the rules fails with the key named where everything must be fetched', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    lab.backend.objects.set(`${TREE_KEY}/../escape`, { bytes: Buffer.from('x'), modTime: new Date() })
    const error = await failure(lab.hydrate(b, { store: storeOf(withoutGet()) }))
    expect(error).toMatchObject({ message: expect.stringContaining('../escape') })
    expectNothing()
    expect(existsSync(join(b.root, '..', 'escape'))).toBe(false)
  })

  it('with placeholders of a console hydrates as if they were not there', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    for (const key of [`${TREE_KEY}/`, `${TREE_KEY}/files/`, `${TREE_KEY}/new/`]) {
      lab.backend.objects.set(key, { bytes: Buffer.alloc(0), modTime: new Date() })
    }
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      expect(await lab.hydrate(host, { store })).toMatchObject({ outcome: 'hydrated' })
      expect(Object.keys(describeTree(host.dir))).toEqual(['files', 'files/a'])
    }
  })
})

describe('an interrupted snapshot', () => {
  it('leaves orphans that are not restored, and that stay in the bucket', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    lab.plant(`${TREE_KEY}/files/orphan`, 'half a turn')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      await lab.hydrate(host, { store })
      expect(Object.keys(describeTree(host.dir))).toEqual(['files', 'files/a'])
    }
    expect(lab.object('files/orphan')).toBe('half a turn')
  })

  it('that appended to an object is undone by cutting it back', async () => {
    write(a, 'context/conversation.jsonl', 'turn 1\n')
    write(a, 'files/empty', '')
    await lab.snapshot(a)
    lab.plant(`${TREE_KEY}/context/conversation.jsonl`, 'turn 1\nhalf of turn 2\n')
    lab.plant(`${TREE_KEY}/files/empty`, 'no more')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      expect((await lab.hydrate(host, { store, onMixed: 'fail' })).mixed).toBeUndefined()
      expect(read(host, 'context/conversation.jsonl')).toBe('turn 1\n')
      expect(describeTree(host.dir)).toEqual(describeTree(a.dir))
    }
  })

  it('that rewrote an object in place leaves a mixture, which is reported: the limit of this layout', async () => {
    write(a, 'files/report', 'generation one')
    write(a, 'files/other', 'untouched')
    await lab.snapshot(a)
    lab.plant(`${TREE_KEY}/files/report`, 'generation two')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      const result = await lab.hydrate(host, { store })
      expect(result).toMatchObject({ outcome: 'hydrated', mixed: { generation: 1, paths: ['files/report'] } })
      expect(read(host, 'files/report')).toBe('generation two')
      expect(read(host, 'files/other')).toBe('untouched')
      const strict = lab.host({ empty: true })
      expect(await failure(lab.hydrate(strict, { store, onMixed: 'fail' }))).toMatchObject({
        code: 'CORRUPT',
        key: 'files/report',
        message: expect.stringContaining('files/report'),
      })
      expectNothing(strict)
    }
  })

  it('under auto fails for a database and the conversation, and warns for other files', async () => {
    for (const path of ['files/report', 'context/conversation.jsonl', 'plugins/p/store.db', 'plugins/p/q/store.db']) {
      write(a, path, 'generation one')
    }
    await lab.snapshot(a)
    for (const path of ['context/conversation.jsonl', 'plugins/p/store.db', 'plugins/p/q/store.db']) {
      const key = `${TREE_KEY}/${path}`
      const committed = lab.backend.objects.get(key)
      lab.plant(key, 'another')
      const host = lab.host({ empty: true })
      expect(await failure(lab.hydrate(host, { onMixed: 'auto' }))).toMatchObject({ code: 'CORRUPT', key: path })
      expectNothing(host)
      if (committed !== undefined) lab.backend.objects.set(key, committed)
    }
    lab.plant(`${TREE_KEY}/files/report`, 'generation two')
    expect(await lab.hydrate(b, { onMixed: 'auto' })).toMatchObject({ mixed: { paths: ['files/report'] } })
  })

  it('is no excuse for an object that was last stored before the commit: that is damage, and named', async () => {
    write(a, 'files/report', 'generation one')
    await lab.snapshot(a)
    const key = `${TREE_KEY}/files/report`
    const before = new Date((lab.backend.objects.get(MANIFEST_KEY)?.modTime?.getTime() ?? 0) - 1)
    for (const bytes of ['generation oNe', 'generation', 'generation zero']) {
      lab.backend.objects.set(key, { bytes: Buffer.from(bytes), modTime: before })
      for (const store of [lab.store, storeOf(withoutGet())]) {
        const host = lab.host({ empty: true })
        expect(await failure(lab.hydrate(host, { store, onMixed: 'warn' }))).toMatchObject({
          code: 'CORRUPT',
          key: 'files/report',
        })
        expectNothing(host)
      }
    }
  })

  it('is not judged while the store fails to say when its objects were stored', async () => {
    write(a, 'files/report', 'generation one')
    await lab.snapshot(a)
    lab.plant(`${TREE_KEY}/files/report`, 'generation two')
    lab.backend.faults.failWhen(({ op }) => op === 'list')
    expect(await failure(lab.hydrate(b, { onMixed: 'warn' }))).toMatchObject({ code: 'UNAVAILABLE' })
    expectNothing()
  })

  it('that made a directory of a file is no collision where objects are fetched by name', async () => {
    write(a, 'files/a', 'a file')
    await lab.snapshot(a)
    rmSync(join(a.dir, 'files/a'))
    write(a, 'files/a/b', 'below')
    await lab.snapshot(a)
    expect(lab.object('files/a')).toBe('a file')
    await lab.hydrate(b)
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    const other = lab.host({ empty: true })
    const error = await failure(lab.hydrate(other, { store: storeOf(withoutGet()) }))
    expect(error).toMatchObject({ message: expect.stringMatching(/files\/a".*files\/a\/b"/s) })
    expectNothing(other)
  })

  it('of another host that ended well while we fetched is followed: the manifest is read once more', async () => {
    write(a, 'files/a', 'one')
    write(a, 'files/big', 'unchanged')
    write(a, 'files/only-in-one', 'x')
    await lab.snapshot(a)
    let committed = false
    const failpoint = async (name: string): Promise<void> => {
      if (committed || name !== 'hydrate:manifest-read') return
      committed = true
      write(a, 'files/a', 'second')
      write(a, 'files/new/b', 'new')
      rmSync(join(a.dir, 'files/only-in-one'))
      await lab.snapshot(a)
    }
    for (const open of [() => lab.store, () => storeOf(withoutGet())]) {
      committed = false
      const host = lab.host({ empty: true })
      const result = await lab.hydrate(host, { failpoint, store: open() })
      expect(result.mixed).toBeUndefined()
      expect(result.committed?.generation).toBe(lab.generation)
      expect(describeTree(host.dir)).toEqual(describeTree(a.dir))
      expect(read(host, 'session.lock')).toBe('ours')
      write(a, 'files/a', 'one')
      write(a, 'files/only-in-one', 'x')
      rmSync(join(a.dir, 'files/new'), { recursive: true })
      await lab.snapshot(a)
    }
  })

  it('takes over what was verified already when another host commits meanwhile', async () => {
    for (let n = 0; n < 10; n++) write(a, `files/${n}`, `content ${n}`)
    write(a, 'files/changes', 'one')
    await lab.snapshot(a)
    const from = lab.backend.faults.calls.length
    let done = false
    const failpoint = async (name: string): Promise<void> => {
      if (done || name !== 'hydrate:manifest-read') return
      done = true
      write(a, 'files/changes', 'another')
      await lab.snapshot(a)
    }
    await lab.hydrate(b, { failpoint })
    const gets = lab.backend.faults.calls.slice(from).filter(({ op, key }) => op === 'get' && key.includes('/files/'))
    // Each once, and the one that changed: twice because it differed, once more for the manifest that knows it.
    expect(gets).toHaveLength(10 + 3)
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
  })
})

describe('a first commit that was never completed', () => {
  it('leaves no session for others, whatever on_mixed says: no turn of it was ever acknowledged', async () => {
    const blob = `blobs/${sha('x').slice(0, 2)}/${sha('x')}.bin`
    for (const path of ['files/a', 'context/conversation.jsonl', blob]) lab.plant(`${TREE_KEY}/${path}`, 'x')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      for (const onMixed of ['auto', 'warn', 'fail'] as const) {
        expect(await lab.hydrate(lab.host({ empty: true }), { store, onMixed })).toMatchObject({
          outcome: 'never-seen',
        })
      }
    }
    expectNothing()
  })
})

describe('a manifest of version 1', () => {
  it('restores what it names, and blobs that it does not', async () => {
    const blob = `blobs/${sha('x').slice(0, 2)}/${sha('x')}`
    const v1 = { _schema_version: 1, session_id: SESSION, generation: 4, objects: ['files/a'] }
    lab.plant(MANIFEST_KEY, JSON.stringify(v1))
    for (const path of ['files/a', 'files/orphan', `${blob}.bin`, `${blob}.meta`]) lab.plant(`${TREE_KEY}/${path}`, 'x')
    for (const store of [lab.store, storeOf(withoutGet())]) {
      const host = lab.host({ empty: true })
      const result = await lab.hydrate(host, { store })
      expect(result).toMatchObject({ outcome: 'hydrated', committed: { generation: 4, _schema_version: 1 } })
      const tree = describeTree(host.dir)
      expect(Object.keys(tree).filter((path) => tree[path]?.startsWith('file'))).toEqual([
        `${blob}.bin`,
        `${blob}.meta`,
        'files/a',
      ])
      expect(lstatSync(join(host.dir, 'files/a')).mode & 0o777).toBe(0o600)
    }
  })
})

describe('without get', () => {
  it('blobs that no manifest names are kept', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    const blob = `blobs/${sha('x').slice(0, 2)}/${sha('x')}.bin`
    lab.plant(`${TREE_KEY}/${blob}`, 'x')
    await lab.hydrate(b, { store: storeOf(withoutGet()) })
    expect(read(b, blob)).toBe('x')
  })

  it('nothing of what was pruned is left in the tree', async () => {
    write(a, 'files/a', 'a')
    await lab.snapshot(a)
    for (let n = 0; n < 20; n++) lab.plant(`${TREE_KEY}/orphans/${n}/x`, 'x')
    await lab.hydrate(b, { store: storeOf(withoutGet()) })
    expect(readdirSync(b.dir).toSorted()).toEqual(['files', 'session.lock'])
  })
})

describe('failures of the local disk', () => {
  it('name the path of the session and leave nothing', async () => {
    write(a, 'files/a', 'a')
    const { committed: manifest } = await lab.snapshot(a)
    const long = `files/${'x'.repeat(300)}`
    const entry = manifest.entries['files/a']
    if (entry !== undefined) commit({ links: { [long]: { target: 'a' } } }, { 'files/a': 'a' })
    expect(await failure(lab.hydrate(b))).toMatchObject({ code: 'LOCAL_IO', key: long })
    expectNothing()
  })

  it.each(['ENOSPC', 'EIO', 'EMFILE', 'EROFS', 'EDQUOT'])(
    '%s at any file-system call fails as a whole',
    async (code) => {
      write(a, 'context/conversation.jsonl', 'turn 1\n')
      write(a, 'files/run.sh', 'x', 0o755)
      mkdirSync(join(a.dir, 'files/empty'), { mode: 0o700 })
      link(a, 'files/link', 'run.sh')
      await lab.snapshot(a)
      lab.plant(`${TREE_KEY}/context/conversation.jsonl`, 'turn 1\nhalf of turn 2\n')
      for (const open of [() => lab.store, () => storeOf(withoutGet())]) {
        let calls = Infinity
        for (let nth = 1; nth <= calls; nth++) {
          let count = 0
          const fs = new Proxy(nodeFs, {
            get: (target, name: keyof HydrateFs) => {
              const real: unknown = target[name]
              if (typeof real !== 'function') return real
              return (...args: unknown[]): unknown => {
                if (++count === nth) throw Object.assign(new Error(`${code} in ${name}`), { code, syscall: name })
                return Reflect.apply(real, target, args) as unknown
              }
            },
          })
          const host = lab.host({ empty: true })
          const error = await failure(lab.hydrate(host, { fs, store: open() }))
          if (count < nth) {
            calls = count
            continue
          }
          expect(error).toMatchObject({ code: 'LOCAL_IO', cause: { code } })
          expectNothing(host)
        }
        expect(calls).toBeGreaterThan(10)
      }
    },
  )

  it('to make the staging directory are LOCAL_IO', async () => {
    const file = join(b.root, 'file')
    writeFileSync(file, '')
    expect(await failure(lab.hydrate(b, { sessionsRoot: file }))).toMatchObject({ code: 'LOCAL_IO' })
    renameSync(file, `${file}2`)
  })
})
