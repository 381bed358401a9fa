import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { activePlugins, bootOrder } from './boot-order.ts'

const plugin = (id: string, ...dependencies: string[]) => ({ id, dependencies })
const ids = (plugins: readonly { id: string }[]): string[] => plugins.map(({ id }) => id)

describe('bootOrder', () => {
  it('puts each plugin after what it depends on, and keeps the given order otherwise', () => {
    expect(ids(bootOrder([plugin('c', 'b'), plugin('x'), plugin('b', 'a'), plugin('a')]))).toEqual(['a', 'b', 'c', 'x'])
    expect(ids(bootOrder([{ id: 'z' }, { id: 'y' }]))).toEqual(['z', 'y'])
  })

  it('names every member of a cycle', () => {
    expect(() => bootOrder([plugin('x'), plugin('a', 'b'), plugin('b', 'c'), plugin('c', 'a')])).toThrow(
      /circle: a -> b -> c -> a/,
    )
    expect(() => bootOrder([plugin('a', 'a')])).toThrow(/circle: a -> a/)
  })

  it('names a dependency that is missing, and who wants it', () => {
    expect(() => bootOrder([plugin('a', 'gone')])).toThrow('plugin "a" depends on "gone", which is not active')
  })

  it('refuses doubled, malformed and reserved ids', () => {
    expect(() => bootOrder([plugin('a'), plugin('a')])).toThrow('two plugins are named "a"')
    expect(() => bootOrder([plugin('active')])).toThrow(/plugins.active/)
    for (const id of ['', '../a', 'a//b', 'a\0', 'CON'])
      expect(() => bootOrder([plugin(id)])).toThrow(/[Ii]nvalid plugin id/)
  })

  it('holds for any graph without cycles', () => {
    // Dependencies only on lower numbers make no cycle; the order given is shuffled.
    const graphs = fc
      .integer({ min: 1, max: 12 })
      .chain((size) =>
        fc.tuple(
          ...Array.from({ length: size }, (_, at) =>
            fc.subarray(Array.from({ length: at }, (__, lower) => `p${lower}`)),
          ),
        ),
      )
      .map((dependencies) => dependencies.map((list, at) => plugin(`p${at}`, ...list)))
      .chain((plugins) => fc.shuffledSubarray(plugins, { minLength: plugins.length }))
    fc.assert(
      fc.property(graphs, (plugins) => {
        const order = ids(bootOrder(plugins))
        expect(order.toSorted()).toEqual(ids(plugins).toSorted())
        const early = plugins.flatMap(({ id, dependencies }) =>
          dependencies.filter((on) => order.indexOf(on) > order.indexOf(id)),
        )
        expect(early).toEqual([])
      }),
    )
  })
})

describe('activePlugins', () => {
  const brought = [plugin('a'), plugin('b')]

  it('are all of them where the configuration has no list, and none where its list is empty', () => {
    expect(ids(activePlugins(brought))).toEqual(['a', 'b'])
    expect(activePlugins(brought, [])).toEqual([])
    expect(ids(activePlugins(brought, ['b', 'b']))).toEqual(['b'])
  })

  it('must be passed by the program', () => {
    expect(() => activePlugins(brought, ['c'])).toThrow('plugins.active names "c", but the program passes a, b')
    expect(() => activePlugins([], ['c'])).toThrow('the program passes none')
  })
})
