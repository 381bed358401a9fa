import assert from 'node:assert/strict'
import type { ContractCase } from '../contract-case.ts'

/** What `delete` and `flush` do. */
export const deleteCases: readonly ContractCase[] = [
  {
    name: 'delete removes the object',
    rule: 'After a delete that resolved the object is neither listed nor hydrated, and its key is free again.',
    why: 'An owner marker that stays makes the next host believe that two of them run one session.',
    run: async ({ backend, hydrated, keys, store }) => {
      await store('s/a', 'first')
      await store('s/b', 'kept')
      await backend.delete('s/a')
      assert.deepEqual(await keys('s'), ['s/b'])
      assert.deepEqual(await hydrated('s'), [['b', 'kept']])
      await store('s/a', 'second')
      assert.deepEqual(await hydrated('s'), [
        ['a', 'second'],
        ['b', 'kept'],
      ])
    },
  },
  {
    name: 'delete of a missing key succeeds',
    rule: 'Deleting what is not there is a success, also twice and also where nothing was ever stored.',
    why: 'A delete whose answer was lost is made again; an error would turn a clean stop into a failed one.',
    run: async ({ backend, store }) => {
      await backend.delete('never/there')
      await store('s/a', 'x')
      await backend.delete('s/a')
      await backend.delete('s/a')
      await backend.delete('s/a/below')
    },
  },
  {
    name: 'delete removes exactly its key',
    rule: 'A key is one object, not a directory and not a prefix: neighbours and everything below it stay.',
    why: 'A delete that takes a subtree with it takes a session.',
    run: async ({ backend, keys, store }) => {
      const all = ['s/a/b', 's/a/c', 's/ab', 's/a.b', 's/a b']
      for (const key of all) await store(key, key)
      await backend.delete('s/a')
      await backend.delete('s')
      assert.deepEqual(await keys(''), all.toSorted())
      await backend.delete('s/a/b')
      assert.deepEqual(await keys(''), all.filter((key) => key !== 's/a/b').toSorted())
    },
  },
  {
    name: 'delete of an object leaves what is stored below its key',
    rule: 'Where both "a" and "a/b" are stored, each is deleted without the other.',
    why: 'In an object store they have nothing to do with each other.',
    requires: ['objectAtPrefix'],
    run: async ({ backend, keys, store }) => {
      await store('s/a', '1')
      await store('s/a/b', '2')
      await backend.delete('s/a')
      assert.deepEqual(await keys(''), ['s/a/b'])
      await store('s/a', '1')
      await backend.delete('s/a/b')
      assert.deepEqual(await keys(''), ['s/a'])
    },
  },
  {
    name: 'flush can be called at any time and again',
    rule: 'flush resolves when every earlier put and delete is durable; with nothing to do, too, and any number of times.',
    why: 'A commit flushes three times; one that is refused is an outage.',
    run: async ({ backend, hydrated, store }) => {
      await backend.flush()
      await backend.flush()
      await store('s/a', '1')
      await store('s/b', '2')
      await backend.delete('s/b')
      await backend.flush()
      await backend.flush()
      assert.deepEqual(await hydrated('s'), [['a', '1']])
      await Promise.all([backend.flush(), store('s/c', '3'), backend.flush()])
      await backend.flush()
      assert.deepEqual(await hydrated('s'), [
        ['a', '1'],
        ['c', '3'],
      ])
    },
  },
]
