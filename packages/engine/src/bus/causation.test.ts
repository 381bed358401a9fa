import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gate, settle } from '@nexus/host/testing'
import { newBus } from '../../test/bus-fixture.ts'
import type { NexusEvent } from './event.ts'

describe('causation', () => {
  it('is exact through event.emit, also across awaits and between interleaved events', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('parent', async (event) => {
      await Promise.resolve()
      await event.emit('child', event.payload)
      await Promise.resolve()
      await event.emit('child', event.payload)
    })
    await Promise.all([bus.emit('parent', 'a'), bus.emit('parent', 'b')])
    const events = recorder.records.map(({ event }) => event)
    const parents = new Map(events.filter(({ type }) => type === 'parent').map((event) => [event.payload, event]))
    const children = events.filter(({ type }) => type === 'child')
    expect(children).toHaveLength(4)
    for (const { payload, causation } of children) {
      const parent = parents.get(payload)!
      expect(causation).toMatchObject({ parent_id: parent.id, parent_seq: parent.causation.seq, depth: 1 })
    }
  })

  it('reaches a plain bus.emit in the synchronous part of a handler, and no further', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('parent', async () => {
      void bus.emit('before await', 1)
      await Promise.resolve()
      void bus.emit('after await', 1)
    })
    await bus.emit('parent', 1)
    await bus.emit('root', 1)
    const depths = Object.fromEntries(recorder.records.map(({ event }) => [event.type, event.causation.depth]))
    expect(depths).toEqual({ parent: 0, 'before await': 1, 'after await': 0, root: 0 })
  })

  it('names the innermost of nested synchronous handlers, and the outer one again afterwards', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('a', () => {
      void bus.emit('b', 1)
      void bus.emit('d', 1)
    })
    bus.subscribe('b', () => void bus.emit('c', 1))
    await bus.emit('a', 1)
    const byType = new Map(recorder.records.map(({ event }) => [event.type, event]))
    const parentOf = (type: string): string | undefined => byType.get(type)?.causation.parent_id
    expect(parentOf('b')).toBe(byType.get('a')?.id)
    expect(parentOf('c')).toBe(byType.get('b')?.id)
    expect(parentOf('d')).toBe(byType.get('a')?.id)
    expect(byType.get('c')?.causation).toMatchObject({ depth: 2, parent_seq: 2 })
  })

  it('is restored after a handler that throws', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('a', () => {
      throw new Error('boom')
    })
    await bus.emit('a', 1)
    await bus.emit('b', 1)
    expect(recorder.records.find(({ event }) => event.type === 'b')?.event.causation.depth).toBe(0)
  })

  it('keeps the id and drops the number of a parent that is not recorded', async () => {
    const { bus } = newBus()
    bus.setRecorder({ record: (event) => (event.type === 'core.tick' ? undefined : 1) })
    let child: NexusEvent | undefined
    bus.subscribe('core.tick', (event) => void event.emit('x', 1))
    bus.subscribe('x', (event) => (child = event))
    await bus.emit('core.tick', { sequence: 1, time: 'now' })
    expect(child?.causation).toMatchObject({ parent_seq: undefined, parent_id: expect.any(String), depth: 1 })
  })

  it('with asyncContext also reaches a plain bus.emit after an await, each its own', async () => {
    const { bus, recorder } = newBus({ asyncContext: true })
    const turns = gate()
    bus.subscribe('parent', async ({ payload }) => {
      await turns.promise
      await bus.emit('child', payload)
    })
    const emitted = [bus.emit('parent', 'a'), bus.emit('parent', 'b')]
    turns.open()
    await Promise.all(emitted)
    await bus.emit('root', 1)
    const events = recorder.records.map(({ event }) => event)
    for (const name of ['a', 'b']) {
      const [parent, child] = events.filter(({ payload }) => payload === name)
      expect(child?.causation).toMatchObject({ parent_id: parent?.id, depth: 1 })
    }
    expect(events.at(-1)?.causation.depth).toBe(0)
  })

  it('of what a before:* handler emits has the parent id and no number', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('before:x', async (event) => {
      void bus.emit('sync child', 1)
      await settle()
      await event.emit('async child', 1)
    })
    await bus.emitVetoable('before:x', 1)
    expect(recorder.types).toEqual(['sync child', 'async child', 'before:x'])
    const [first, second, before] = recorder.records.map(({ event }) => event)
    for (const child of [first, second]) {
      expect(child?.causation).toMatchObject({ parent_seq: undefined, parent_id: before?.id, depth: 1 })
    }
    expect(before?.causation.seq).toBe(3)
  })

  it('of what is emitted through a before:* event after its outcome has no number either', async () => {
    const { bus, recorder } = newBus()
    let kept: NexusEvent | undefined
    bus.subscribe('before:x', (event) => void (kept = event))
    await bus.emitVetoable('before:x', 1)
    await kept?.emit('late', 1)
    expect(recorder.records[1]?.event.causation).toMatchObject({ parent_seq: undefined, parent_id: kept?.id })
  })

  it('is a tree whatever is nested in what: a parent is recorded before its children, one level above them', async () => {
    interface Tree {
      async: boolean
      plain: boolean
      children: Tree[]
    }
    const tree: fc.Memo<Tree> = fc.memo((depth) =>
      fc.record({
        async: fc.boolean(),
        plain: fc.boolean(),
        children: depth <= 1 ? fc.constant([]) : fc.array(tree(), { maxLength: 3 }),
      }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(tree(4), { maxLength: 4 }), async (roots) => {
        const { bus, recorder } = newBus()
        const parentOf = new Map<Tree, Tree>()
        const handle = (event: NexusEvent): unknown => {
          const node = event.payload as Tree
          for (const child of node.children) parentOf.set(child, node)
          // A plain emit finds its parent only in the synchronous part.
          if (!node.async) {
            for (const child of node.children) void (child.plain ? bus : event).emit('node', child)
            return undefined
          }
          return (async () => {
            await Promise.resolve()
            await Promise.all(node.children.map((child) => event.emit('node', child)))
          })()
        }
        bus.subscribe('node', handle)
        await Promise.all(roots.map((root) => bus.emit('node', root)))
        await bus.drain({ timeoutMs: 1000 })
        const events = new Map(recorder.records.map(({ event }) => [event.payload as Tree, event]))
        for (const [node, { causation }] of events) {
          const parent = parentOf.get(node) === undefined ? undefined : events.get(parentOf.get(node)!)
          expect(causation.parent_id).toBe(parent?.id)
          expect(causation.parent_seq).toBe(parent?.causation.seq)
          expect(causation.depth).toBe(parent === undefined ? 0 : parent.causation.depth + 1)
          expect(causation.seq!).toBeGreaterThan(parent?.causation.seq ?? 0)
        }
      }),
      { numRuns: 200 },
    )
  })
})
