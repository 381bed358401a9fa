import assert from 'node:assert/strict'
import { isNexusError } from '@nexus/objectstore'
import { assertNames, rejectionOf } from '../assertions.ts'
import type { ContractCase } from '../contract-case.ts'

/** What a driver makes of its configuration. */
export const configurationCases: readonly ContractCase[] = [
  {
    name: 'prefix keeps two stores of one bucket apart',
    rule: 'With core.object_store.prefix P a key K is the object P/K of the bucket, and nothing outside of P is seen or changed.',
    why: 'Two deployments that share a bucket would resume, overwrite and delete sessions of each other.',
    requires: ['configured'],
    run: async ({ open, file }) => {
      const [one, two, both] = [
        await open.configured({ prefix: 'deploy/one' }),
        await open.configured({ prefix: 'deploy/one-more' }),
        await open.configured({ prefix: 'deploy' }),
      ]
      const keys = async (backend: typeof one): Promise<string[]> =>
        (await backend.list('')).map(({ key }) => key).toSorted()
      await one.put('s/a', await file('one'))
      await two.put('s/a', await file('two'))
      await two.put('s/b', await file('two'))
      assert.deepEqual(await keys(one), ['s/a'])
      assert.deepEqual(await keys(both), ['one-more/s/a', 'one-more/s/b', 'one/s/a'])
      await two.delete('s/a')
      assert.deepEqual(await keys(one), ['s/a'], 'a delete below one prefix reached the other')
    },
  },
  {
    name: 'an unknown option is refused by name',
    rule: 'An option that the driver does not know rejects at open, INVALID_ARGUMENT, and is named; parseOptions does it.',
    why: 'A mistyped encryption key or storage class is silently not in effect.',
    requires: ['configured'],
    run: async ({ open }) => {
      const error = await rejectionOf('opening with an unknown option', () =>
        open.configured({ options: { no_such_option: 1 } }),
      )
      assert.ok(
        isNexusError(error, 'INVALID_ARGUMENT'),
        `opening with an unknown option rejected with ${String(error)}`,
      )
      assertNames(error, 'no_such_option')
    },
  },
]
