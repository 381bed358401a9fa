import { Slices, sortSliced } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import type { WalkedTree } from '../../tree/tree-walk.ts'
import { buildManifest, type ManifestParts } from './build.ts'
import type { ManifestEntry } from './manifest.ts'

const ENTRY: ManifestEntry = { size: 1, mode: 0o600, mtime_ns: '0', sha256: '0'.repeat(64) }

function parts(paths: readonly string[], more: Partial<ManifestParts> = {}): ManifestParts {
  const tree: WalkedTree = {
    files: new Map(),
    dirs: new Map(),
    links: new Map(),
    specials: [],
    sidecars: [],
    unstorable: [],
  }
  return {
    sessionId: 's1',
    generation: 1,
    nonce: 'n',
    instanceId: 'i',
    completedAt: '2026-01-01T00:00:00Z',
    keyPrefix: 'sessions/s1',
    tree,
    stored: new Map(paths.map((path) => [path, ENTRY])),
    lastSeq: 0,
    swept: new Set(),
    carry: async () => undefined,
    mixedFrom: undefined,
    committed: undefined,
    slices: new Slices(),
    ...more,
  }
}

describe('a manifest that is built', () => {
  it('names its objects in the order of their code units', async () => {
    const paths = ['b', 'a/b', 'a-b', 'a', 'é', '\uFFFD', '😀', 'Z'].filter((path) => path !== 'a')
    expect((await buildManifest(parts(paths))).objects).toEqual(paths.toSorted())
  })

  it.each(['files', 'journal', 'plugins', 'blobs'])('is refused with a file in the place of %s', async (path) => {
    await expect(buildManifest(parts([path]))).rejects.toMatchObject({ code: 'CORRUPT', key: path })
  })

  it('is refused when it names what can not exist together', async () => {
    await expect(buildManifest(parts(['files/a', 'files/a/b']))).rejects.toMatchObject({
      code: 'CORRUPT',
      message: expect.stringContaining('files/a/b'),
    })
    const { tree } = parts([])
    tree.links.set('files/a', 'x')
    await expect(buildManifest(parts(['files/a'], { tree }))).rejects.toMatchObject({ code: 'CORRUPT' })
  })

  it('of 300,000 objects leaves the event loop its turns', async () => {
    const paths = Array.from({ length: 300_000 }, (_, n) => `files/d${(n * 7919) % 3000}/name-${n}`)
    const made = parts(paths)
    for (let n = 0; n < 3000; n++) made.tree.dirs.set(`files/d${n}`, n % 2 === 0 ? 0o700 : 0o755)
    let turns = 0
    let running = true
    const turn = (): void => {
      turns++
      if (running) setImmediate(turn)
    }
    setImmediate(turn)
    const started = process.cpuUsage()
    const manifest = await buildManifest(made)
    const { user, system } = process.cpuUsage(started)
    running = false
    expect(manifest.objects).toHaveLength(300_000)
    expect(Object.keys(manifest.dirs)).toHaveLength(1500)
    // Slices of 4 ms. Of this process alone: on a machine that others use as well, the time of day says nothing.
    expect((user + system) / 1000 / turns).toBeLessThan(15)
  })
})

describe('sorting in slices', () => {
  it.each([0, 1, 2, 999, 1000, 1001, 2000, 4711])('gives what sorting at once gives: %i strings', async (count) => {
    const strings = Array.from({ length: count }, (_, n) => `${(n * 7919) % 5000}-${n % 3}`)
    expect(await sortSliced(strings, new Slices())).toEqual(strings.toSorted())
  })
})
