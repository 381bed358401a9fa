import { NexusError } from '@nexus/errors'
import type { JournalRecord } from '@nexus/journal'
import { describe, expect, it } from 'vitest'
import { gate, settle } from '@nexus/host/testing'
import { newBus } from '../test/bus-fixture.ts'
import { JournalRecorder, subscribeJournalGate, type RecorderJournal } from './event-recorder.ts'
import { isSideEffect, isWrittenAhead } from './bus/events.ts'

class FakeJournal implements RecorderJournal {
  readonly records: (JournalRecord & { writeThrough: boolean })[] = []
  behind: NexusError | undefined
  closed = false
  committing: Promise<void> | undefined
  ending: Promise<void> = Promise.resolve()
  turnsEnded = 0

  append(record: JournalRecord, options?: { writeThrough?: boolean }): number {
    if (this.closed) return 0
    return this.records.push({ ...record, writeThrough: options?.writeThrough ?? false })
  }

  committed(): Promise<void> | undefined {
    return this.committing
  }

  turnEnded(): Promise<void> {
    this.turnsEnded++
    return this.ending
  }
}

function recording(policy: Partial<ConstructorParameters<typeof JournalRecorder>[1]> = {}, agentId = '') {
  const fixture = newBus({ agentId })
  const journal = new FakeJournal()
  fixture.bus.setRecorder(
    new JournalRecorder(journal, { fsync: 'turn-boundary', excludeEvents: ['core.tick'], ...policy }),
  )
  return { ...fixture, journal }
}

describe('a recorded event', () => {
  it('carries what the bus knows of it, and nothing in empty fields', async () => {
    const { bus, journal } = recording()
    bus.subscribe('io.input', (event) =>
      event.emit('llm.request', { role: 'r', model: 'm', messages: [] }, { source: 'p' }),
    )
    await bus.emit('io.input', { content: 'hi', session_id: 's1' })
    const [input, request] = journal.records
    expect(input).toEqual({
      ts: '2026-11-29T16:34:12.000Z',
      type: 'io.input',
      event_id: expect.stringMatching(/^[0-9a-v]{26}$/),
      source: 'core',
      session_id: 's1',
      depth: 0,
      payload: { _schema_version: 1, content: 'hi', session_id: 's1' },
      writeThrough: true,
    })
    expect(request).toMatchObject({
      source: 'p',
      parent_seq: 1,
      parent_id: input?.event_id,
      depth: 1,
      side_effect: true,
    })
  })

  it('of an agent names the agent', async () => {
    const { bus, journal } = recording({}, 'a1')
    await bus.emit('x', 1)
    expect(journal.records[0]?.agent_id).toBe('a1')
  })

  it('of a veto says so with its reason; a passed one looks like any other', async () => {
    const { bus, journal } = recording()
    const off = bus.subscribe('before:x', () => ({ vetoed: true, reason: 'no' }))
    await bus.emitVetoable('before:x', 1)
    off()
    await bus.emitVetoable('before:x', 1)
    expect(journal.records[0]).toMatchObject({ vetoed: true, veto_reason: 'no' })
    expect(journal.records[1]?.vetoed).toBeUndefined()
    expect(journal.records[1]?.veto_reason).toBeUndefined()
  })

  it('is none for an excluded type, which takes no number and gives its children none', async () => {
    const { bus, journal } = recording()
    bus.subscribe('core.tick', (event) => void event.emit('x', 1))
    await bus.emit('core.tick', { sequence: 1, time: 't' })
    await bus.emit('y', 1)
    expect(journal.records.map(({ type }) => type)).toEqual(['x', 'y'])
    expect(journal.records[0]).toMatchObject({ parent_seq: undefined, parent_id: expect.any(String), depth: 1 })
  })

  it('has no number once the journal is closed', async () => {
    const { bus, journal } = recording()
    journal.closed = true
    let seq: number | undefined = 7
    bus.subscribe('x', ({ causation }) => (seq = causation.seq))
    await bus.emit('x', 1)
    expect(seq).toBeUndefined()
  })
})

describe('writing ahead', () => {
  it.each([
    'llm.request',
    'llm.response',
    'tool.invoke',
    'tool.result',
    'hitl.requested',
    'hitl.responded',
    'web.fetch',
    'shell.execute',
    'file.write',
    'code.execute',
    'rag.ingest',
    'embeddings.embed',
    'vector.upsert',
  ])('%s is a side effect, and with the kernel before its handlers run', (type) => {
    expect([isSideEffect(type), isWrittenAhead(type)]).toEqual([true, true])
  })

  it.each(['io.input', 'agent.turn.start', 'agent.turn.end', 'agent.turn.anything'])(
    '%s too, without being one',
    (type) => {
      expect([isSideEffect(type), isWrittenAhead(type)]).toEqual([false, true])
    },
  )

  it.each(['io.output', 'before:tool.invoke', 'tool.invoked', 'hitl', 'webhook.called', 'file.writes', 'core.error'])(
    '%s is neither',
    (type) => {
      expect([isSideEffect(type), isWrittenAhead(type)]).toEqual([false, false])
    },
  )

  it('happens before the first handler', async () => {
    const { bus, journal } = recording()
    let recorded: unknown
    bus.subscribe('tool.invoke', () => (recorded = journal.records.at(-1)), { priority: -1000 })
    await bus.emit('tool.invoke', { id: 'i', name: 'n', arguments: {} })
    expect(recorded).toMatchObject({ type: 'tool.invoke', side_effect: true, writeThrough: true })
  })
})

describe('what an emit waits for', () => {
  it('is the end of the turn in the journal, after the handlers, under every policy', async () => {
    for (const fsync of ['turn-boundary', 'every-event', 'none'] as const) {
      const { bus, journal } = recording({ fsync })
      const ended = gate()
      journal.ending = ended.promise
      let resolved = false
      const emitted = bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' }).then(() => (resolved = true))
      await settle()
      expect([journal.turnsEnded, resolved]).toEqual([1, false])
      ended.open()
      await emitted
    }
  })

  it('is the shared commit of every event under every-event, and nothing otherwise', async () => {
    const { bus, journal } = recording({ fsync: 'every-event' })
    const committed = gate()
    journal.committing = committed.promise
    let resolved = 0
    const emitted = [bus.emit('x', 1), bus.emit('y', 1)].map((each) => each.then(() => resolved++))
    void bus.emit('core.tick', { sequence: 1, time: 't' }).then(() => (resolved += 10))
    await settle()
    expect(resolved).toBe(10)
    committed.open()
    await Promise.all(emitted)
    const plain = recording()
    plain.journal.committing = new Promise(() => undefined)
    await plain.bus.emit('x', 1)
  })

  it("is the sync of the session's files too, and a failure of that is one of the turn", async () => {
    const { bus, journal } = recording()
    const synced = gate()
    bus.setRecorder(new JournalRecorder(journal, { fsync: 'turn-boundary', excludeEvents: [] }, () => synced.promise))
    const emitted = bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' })
    await settle()
    expect(bus.outstanding).toBe(1)
    synced.fail(new Error('file EIO'))
    await expect(emitted).rejects.toThrow('file EIO')
  })

  it('is a failure when the turn could not be made durable', async () => {
    const { bus, journal } = recording()
    journal.ending = Promise.reject(new Error('no space'))
    await expect(bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' })).rejects.toThrow('no space')
    expect(journal.records.map(({ type }) => type)).toEqual(['agent.turn.end', 'core.error'])
  })
})

describe('the journal gate', () => {
  it('vetoes input with the reason while the journal is behind, and only then', async () => {
    const { bus, journal } = recording()
    const off = subscribeJournalGate(bus, journal)
    const ask = () => bus.emitVetoable('before:io.input', { content: 'c', session_id: 's' })
    expect(await ask()).toEqual({ vetoed: false })
    journal.behind = new NexusError('LOCAL_IO', 'ENOSPC')
    expect(await ask()).toEqual({ vetoed: true, reason: expect.stringMatching(/journal .*ENOSPC/) })
    journal.behind = undefined
    expect(await ask()).toEqual({ vetoed: false })
    journal.behind = new NexusError('LOCAL_IO', 'EIO')
    off()
    expect(await ask()).toEqual({ vetoed: false })
  })
})
