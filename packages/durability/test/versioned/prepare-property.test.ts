import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Slices } from '@nexus/host'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rebuildPages } from '../../src/versioned/store/index-pages.ts'
import { entryOf, type TreeState } from '../../src/versioned/store/tree-state.ts'
import { SessionFixture } from './session-fixture.ts'
import { treeListing } from './tree-listing.ts'

/** One thing that happens to a tree between two commits, or to the process that makes them. */
type Step =
  | { do: 'write'; path: string; fill: number; size: number }
  | { do: 'append'; path: string; size: number }
  | { do: 'remove' | 'directory' | 'link'; path: string }
  | { do: 'mode'; path: string; mode: number }
  | { do: 'commit' | 'claim' | 'reload' | 'fail' }

const RUNS = Number(process.env['NEXUS_PROPERTY_RUNS'] ?? 4)

const path = fc
  .tuple(fc.constantFrom('a', 'a-b', 'b/c', 'b', 'd/e/f', 'x'), fc.nat(30))
  .map(([dir, n]) => `${dir}/${n}-${'long'.repeat(50)}`)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      path,
      fill: fc.nat(5),
      size: fc.constantFrom(0, 1, 50, 70_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      path,
      fill: fc.nat(2),
      size: fc.constantFrom(4_300_000),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('append' as const), path, size: fc.nat(100_000) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('remove' as const, 'directory' as const, 'link' as const), path }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('mode' as const), path, mode: fc.constantFrom(0o600, 0o755) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('commit' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('claim' as const, 'reload' as const, 'fail' as const) }) },
)

async function take(session: SessionFixture, each: Step): Promise<void> {
  const at = 'path' in each ? join(session.dir, each.path) : ''
  switch (each.do) {
    case 'write':
      rmSync(at, { recursive: true, force: true })
      return session.write(each.path, Buffer.alloc(each.size, `fill ${each.fill} `))
    case 'append':
      return existsSync(at) ? writeFileSync(at, Buffer.alloc(each.size, 'more'), { flag: 'a' }) : undefined
    case 'remove':
      return rmSync(at, { recursive: true, force: true })
    case 'directory':
      rmSync(at, { recursive: true, force: true })
      return void mkdirSync(at, { recursive: true, mode: 0o700 })
    case 'link':
      rmSync(at, { recursive: true, force: true })
      mkdirSync(join(at, '..'), { recursive: true, mode: 0o700 })
      return symlinkSync('../nowhere', at)
    case 'mode':
      return existsSync(at) ? chmodSync(at, each.mode) : undefined
    case 'commit':
      return void (await session.commit())
    case 'claim':
      return session.generation === 0 ? undefined : void (await session.claim())
    case 'reload':
      return session.generation === 0 ? undefined : void (await session.reload())
    case 'fail':
      return void (await session.prepare())
  }
}

/** The keys of the pages that a tree has which is made at once. */
async function pagesAtOnce({ files, links, dirs, table, pages }: TreeState): Promise<(readonly string[])[]> {
  const content = {
    file: (each: string) => files[each],
    link: (each: string) => links[each],
    dir: (each: string) => dirs[each],
  }
  const made = await rebuildPages([], {
    keys: new Map(pages.flatMap(({ keys }) => keys.map((key) => [key, true] as const))),
    isMoved: () => false,
    entryOf: (key) => entryOf(key, content, (id) => table.ref(id)),
    store: (bytes, digest) => ({ digest, n: 0, offset: 0, length: bytes.length, codec: 'raw' }),
    slices: new Slices(),
  })
  return made.map(({ keys }) => keys)
}

describe('whatever happens to a tree', () => {
  it('each commit restores to what the tree was, and has the pages that the tree alone decides', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
        const session = new SessionFixture()
        for (const each of steps) await take(session, each)
        if (readdirSync(session.dir).length === 0) session.write('one', 'file')
        await session.commit()
        const { dir } = await session.restore()
        expect(treeListing(dir)).toEqual(treeListing(session.dir))
        const read = await session.read()
        expect([...read.files.keys()].toSorted()).toEqual(Object.keys(session.state?.files ?? {}).toSorted())
        const state = session.state as TreeState
        const keys = state.pages.map((page) => page.keys)
        expect(keys).toEqual(await pagesAtOnce(state))
        expect((await session.reload()).pages.map((page) => page.keys)).toEqual(keys)
      }),
      { numRuns: RUNS },
    )
  })
})
