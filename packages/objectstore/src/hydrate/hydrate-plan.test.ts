import { Slices } from '@nexus/host'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../../test/temp-dir.ts'
import { planHydration, refuseFoldedTwins } from './hydrate-plan.ts'

function listing(...keys: string[]): { key: string; size: number }[] {
  return keys.map((key) => ({ key, size: key.endsWith('/') ? 0 : 1 }))
}

describe('planHydration', () => {
  it('takes what is under the prefix, prefix stripped', () => {
    const objects = listing('s/1/a', 's/1/b/c', 's/10/a', 's/1', 's/1.x', 'other')
    expect(planHydration(objects, 's/1')).toEqual([
      { key: 's/1/a', relPath: 'a', size: 1 },
      { key: 's/1/b/c', relPath: 'b/c', size: 1 },
    ])
    expect(planHydration(listing('a', 'b/c'), '').map(({ relPath }) => relPath)).toEqual(['a', 'b/c'])
  })

  it('leaves out the folder placeholders of consoles', () => {
    expect(planHydration(listing('s/', 's/files/', 's/files/a', 's/files/a/'), 's')).toHaveLength(1)
  })

  it.each(['s/../evil', 's/a/../../evil', 's//abs', 's/a\\b', 's/a\0b', 's/\ud83d', 's/./a'])(
    'refuses %j in the bucket, naming it',
    (key) => {
      expect(() => planHydration(listing('s/fine', key), 's')).toThrow(
        expect.objectContaining({ code: 'CORRUPT', key, op: 'objectstore.hydrate' }),
      )
    },
  )

  it('refuses a placeholder that holds bytes', () => {
    expect(() => planHydration([{ key: 's/dir/', size: 3 }], 's')).toThrow(/"s\/dir\/", which ends with "\/"/)
  })

  it('takes honest names with dots', () => {
    expect(planHydration(listing('s/a..b', 's/..c', 's/...'), 's')).toHaveLength(3)
  })

  it.each([
    ['s/a', 's/a/b'],
    ['s/a/b/c', 's/a'],
    ['s/x/a', 's/x/a/b/c/d'],
  ])('refuses %j beside %j, naming both', (one, other) => {
    const plan = (): unknown => planHydration(listing('s/z', one, 's/a.b', other, 's/a-b'), 's')
    expect(plan).toThrow(JSON.stringify(one))
    expect(plan).toThrow(JSON.stringify(other))
    expect(plan).toThrow(expect.objectContaining({ code: 'CORRUPT' }))
  })

  it('takes a key that is listed twice once', () => {
    expect(planHydration(listing('s/a', 's/a'), 's')).toHaveLength(1)
  })

  it('agrees with a plain model for any listing', () => {
    const name = fc.constantFrom('a', 'b', 'a.b', 'c', '..c')
    const key = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'))
    fc.assert(
      fc.property(fc.uniqueArray(key, { maxLength: 12 }), key, (keys, prefix) => {
        const below = keys.filter((each) => each.startsWith(`${prefix}/`))
        const collides = below.some((one) => below.some((other) => other.startsWith(`${one}/`)))
        let planned: string[] | 'refused'
        try {
          planned = planHydration(listing(...keys), prefix).map((file) => `${prefix}/${file.relPath}`)
        } catch {
          planned = 'refused'
        }
        expect(planned).toEqual(collides ? 'refused' : below)
      }),
    )
  })
})

describe('refuseFoldedTwins', () => {
  const twins = planHydration(listing('s/A.txt', 's/b', 's/a.txt', 's/\u00e9', 's/e\u0301'), 's')

  it('lets names that differ in case or Unicode form be, where the file system keeps them apart', async () => {
    await refuseFoldedTwins(twins, tempDir(), new Slices(), () => false)
  })

  it('refuses them where the file system folds them, before anything is written', async () => {
    const asked: string[][] = []
    const folds = (_dir: string, a: string, b: string): boolean => {
      asked.push([a, b])
      return a.toLowerCase() === b.toLowerCase()
    }
    await expect(refuseFoldedTwins(twins, tempDir(), new Slices(), folds)).rejects.toThrow(
      /"s\/A.txt" and "s\/a.txt", which would be one file/,
    )
    expect(asked).toEqual([['A.txt', 'a.txt']])
  })

  it('asks the file system only about twins', async () => {
    const plan = planHydration(listing('s/a', 's/b'), 's')
    await refuseFoldedTwins(plan, '/nonexistent', new Slices(), () => expect.unreachable())
  })

  it('lets the event loop run between 300,000 of them', async () => {
    const names = Array.from({ length: 300_000 }, (_, n) => ({
      key: `s/${n}`,
      relPath: `files/d${n % 3000}/Name-${n}`,
    }))
    let turns = 0
    const counting = setInterval(() => turns++, 0)
    await refuseFoldedTwins(names, '/nonexistent', new Slices())
    clearInterval(counting)
    expect(turns).toBeGreaterThan(3)
  })

  it('asks the file system itself, and leaves nothing there', async () => {
    const { readdir, writeFile, stat } = await import('node:fs/promises')
    const dir = tempDir()
    await writeFile(`${dir}/probe`, '')
    const folding = await stat(`${dir}/PROBE`).then(
      () => true,
      () => false,
    )
    let refused = false
    try {
      await refuseFoldedTwins(planHydration(listing('s/Q', 's/q'), 's'), dir, new Slices())
    } catch {
      refused = true
    }
    expect(refused).toBe(folding)
    expect(await readdir(dir)).toEqual(['probe'])
  })
})
