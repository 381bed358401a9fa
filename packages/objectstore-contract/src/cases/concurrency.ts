import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { readTree } from '../case-context.ts'
import type { ContractCase } from '../contract-case.ts'

/** That calls at the same time don't disturb each other. */
export const concurrencyCases: readonly ContractCase[] = [
  {
    name: 'many puts at once all land',
    rule: 'Puts of different keys are independent, however many run and whether they share directories or not.',
    why: 'A snapshot uploads sixteen files at a time.',
    requires: ['concurrency'],
    run: async ({ store, hydrated, keys }) => {
      const names = Array.from({ length: 60 }, (_, i) => `d${i % 4}/e${i % 3}/f${i}`)
      await Promise.all(names.map((name) => store(`s/${name}`, `content of ${name}`)))
      assert.deepEqual(await keys('s'), names.map((name) => `s/${name}`).toSorted())
      const expected = names
        .map((name) => [name, `content of ${name}`])
        .toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1))
      assert.deepEqual(await hydrated('s'), expected)
    },
  },
  {
    name: 'puts of one key at once leave one of them whole',
    rule: 'Of concurrent puts of one key one wins; the object is that file and never a mixture.',
    why: 'A mixture of two databases is no database.',
    requires: ['concurrency'],
    run: async ({ backend, file, freshPath }) => {
      const letters = ['a', 'b', 'c', 'd', 'e', 'f']
      // Growing and shrinking sizes: whichever way pieces interleave, one of the rounds shows it.
      for (const sizeOf of [(i: number) => 50_000 * (i + 1), (i: number) => 50_000 * (letters.length - i)]) {
        const paths = await Promise.all(letters.map((letter, i) => file(letter.repeat(sizeOf(i)))))
        await Promise.all(paths.map((path) => backend.put('s/f', path)))
        const directory = freshPath()
        await backend.hydrate('s', directory)
        const content = await readFile(join(directory, 'f'), 'utf8')
        const [first = ''] = content
        const winner = letters.indexOf(first)
        assert.ok(winner >= 0, 'the object is none of the files')
        assert.equal(content.length, sizeOf(winner), 'the object has the length of another file')
        assert.equal(content, first.repeat(content.length), 'the object is a mixture of files')
      }
    },
  },
  {
    name: 'readers never see a half-replaced object',
    rule: 'While an object is replaced, list and hydrate see the old one whole or the new one whole, and always one of them.',
    why: 'Another host may resume while this one commits: it must get the one turn or the other.',
    requires: ['concurrency'],
    run: async ({ backend, file, freshPath }) => {
      const sizes = [200_000, 300_000]
      const [old, fresh] = [await file('o'.repeat(sizes[0] ?? 0)), await file('n'.repeat(sizes[1] ?? 0))]
      await backend.put('s/f', old)
      const writes = new AbortController()
      const reader = async (): Promise<void> => {
        while (!writes.signal.aborted) {
          const listed = await backend.list('s')
          assert.equal(listed.length, 1, `list gave ${listed.length} objects while the one was replaced`)
          assert.ok(sizes.includes(listed[0]?.size ?? -1), `list gave size ${listed[0]?.size} while it was replaced`)
          const directory = freshPath()
          await backend.hydrate('s', directory)
          const content = await readFile(join(directory, 'f'), 'utf8')
          const [first = ''] = content
          const whole = sizes.includes(content.length) && content === first.repeat(content.length)
          assert.ok(whole, `hydrate gave ${content.length} bytes of a mixture`)
        }
      }
      const writer = async (): Promise<void> => {
        try {
          for (let i = 0; i < 12; i++) await backend.put('s/f', i % 2 === 0 ? fresh : old)
        } finally {
          writes.abort()
        }
      }
      await Promise.all([writer(), reader(), reader()])
    },
  },
  {
    name: 'listings during changes keep what does not change',
    rule: 'Objects that do not change are in every listing, whatever is put and deleted beside them.',
    why: 'A listing that lost an object makes a snapshot upload it again, or a collector remove it.',
    requires: ['concurrency'],
    run: async ({ backend, file, keys, store }) => {
      const stable = Array.from({ length: 20 }, (_, i) => `s/stable/${i}`)
      await Promise.all(stable.map((key) => store(key, 'x')))
      const path = await file('y')
      const watched = new AbortController()
      const change = async (): Promise<void> => {
        // In bursts, so that what a listing has still to see moves by several places and back.
        while (!watched.signal.aborted) {
          for (let i = 0; i < 5; i++) await backend.put(`s/moving/${i}`, path)
          await setImmediate()
          for (let i = 0; i < 5; i++) await backend.delete(`s/moving/${i}`)
          await setImmediate()
        }
      }
      const watch = async (): Promise<void> => {
        try {
          for (let round = 0; round < 6; round++) {
            assert.deepEqual(await keys('s/stable'), stable.toSorted())
            const all = new Set(await keys('s'))
            const lost = stable.filter((key) => !all.has(key))
            assert.deepEqual(lost, [], 'a listing lost objects that did not change')
          }
        } finally {
          watched.abort()
        }
      }
      await Promise.all([change(), watch()])
    },
  },
  {
    name: 'hydrations at once do not disturb each other',
    rule: 'Two hydrations at the same time, into one directory or into two, both give the complete tree.',
    why: 'Two sessions in one process resume at the same moment.',
    requires: ['concurrency'],
    run: async ({ backend, freshPath, store }) => {
      for (let i = 0; i < 25; i++) await store(`s/d${i % 5}/f${i}`, `content ${i}`)
      const [shared, own] = [freshPath(), freshPath()]
      const all = await Promise.allSettled([shared, shared, own].map((directory) => backend.hydrate('s', directory)))
      for (const outcome of all) if (outcome.status === 'rejected') throw outcome.reason
      const expected = await readTree(own)
      assert.equal(expected.length, 25)
      assert.deepEqual(await readTree(shared), expected)
    },
  },
]
