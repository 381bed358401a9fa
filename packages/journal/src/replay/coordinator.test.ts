import { describe, expect, it } from 'vitest'
import { event, openWriter } from '../../test/support/events.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { Coordinator } from './coordinator.ts'
import { readOpenTurn } from './read-open-turn.ts'
import { ToolCache } from './tool-cache.ts'
import { REFIRED_SOURCE } from './turns.ts'

type Step = [type: string, payload?: unknown, source?: string]

async function journalOf(steps: readonly Step[], rotateBytes = 1 << 30): Promise<string> {
  const dir = tempDir()
  const writer = await openWriter(dir, { rotateBytes })
  for (const [type, payload, source = 'test'] of steps) {
    writer.append(event(type, payload, { source }))
    if (type === 'agent.turn.end') await writer.turnEnded()
  }
  await writer.close()
  return dir
}

const turn = (text: string): Step[] => [
  ['io.input', { content: text }],
  ['agent.turn.start', { turn_id: text }],
  ['llm.response', { content: `answer to ${text}` }],
  ['agent.turn.end', { turn_id: text }],
]

function content(envelope: { payload: unknown } | undefined): unknown {
  return (envelope?.payload as { content?: unknown })?.content
}

describe('turns', () => {
  const cases: [
    string,
    Step[],
    { partial: boolean; input: string | undefined; boundary: number; completed: string[] },
  ][] = [
    ['an empty journal', [], { partial: false, input: undefined, boundary: 0, completed: [] }],
    [
      'complete turns',
      [...turn('one'), ...turn('two')],
      { partial: false, input: undefined, boundary: 8, completed: ['one', 'two'] },
    ],
    [
      'a turn that never ended',
      [...turn('one'), ['io.input', { content: 'two' }], ['agent.turn.start'], ['llm.request']],
      { partial: true, input: 'two', boundary: 4, completed: ['one'] },
    ],
    [
      'an input that was journaled before its turn began',
      [...turn('one'), ['io.input', { content: 'two' }]],
      { partial: false, input: 'two', boundary: 4, completed: ['one'] },
    ],
    [
      'an input that no turn took up in a run that ended in order',
      [...turn('one'), ['io.input', { content: 'two' }], ['core.shutdown']],
      { partial: false, input: undefined, boundary: 4, completed: ['one'] },
    ],
    [
      'an input that a resume gave again before its turn had begun',
      [['io.input', { content: 'one' }], ['io.input', { content: 'one' }, REFIRED_SOURCE], ...turn('').slice(1)],
      { partial: false, input: undefined, boundary: 5, completed: ['one'] },
    ],
    [
      'an interrupted turn, and the next input',
      [['io.input', { content: 'one' }], ['agent.turn.start', { turn_id: 'a' }], ...turn('two')],
      { partial: false, input: undefined, boundary: 6, completed: ['two'] },
    ],
    [
      'turns that overlap',
      [
        ['io.input', { content: 'one' }],
        ['agent.turn.start', { turn_id: 'a' }],
        ['io.input', { content: 'two' }],
        ['agent.turn.start', { turn_id: 'b' }],
        ['agent.turn.end', { turn_id: 'b' }],
        ['agent.turn.end', { turn_id: 'a' }],
      ],
      { partial: false, input: undefined, boundary: 6, completed: ['two', 'one'] },
    ],
    [
      'an input that came while a turn was going on',
      [
        ['io.input', { content: 'one' }],
        ['agent.turn.start'],
        ['io.input', { content: 'two' }],
        ['agent.turn.end'],
        ['agent.turn.start'],
      ],
      { partial: true, input: 'two', boundary: 4, completed: ['one'] },
    ],
    [
      'a turn that was begun again after a crash',
      [
        ['io.input', { content: 'one' }],
        ['agent.turn.start'],
        ['io.input', { content: 'one' }],
        ['agent.turn.start'],
        ['agent.turn.end'],
      ],
      { partial: false, input: undefined, boundary: 5, completed: ['one'] },
    ],
    [
      'a turn without an input',
      [['agent.turn.start']],
      { partial: true, input: undefined, boundary: 0, completed: [] },
    ],
    [
      'text that only looks like an event',
      [...turn('one'), ['llm.response', { quoted: { type: 'agent.turn.start' } }]],
      { partial: false, input: undefined, boundary: 4, completed: ['one'] },
    ],
  ]

  it.each(cases)('are known from %s', async (_, steps, expected) => {
    for (const rotateBytes of [1, 1 << 30]) {
      const dir = await journalOf(steps, rotateBytes)
      const coordinator = await Coordinator.open(dir)
      expect({
        partial: coordinator.isPartialTurn,
        input: content(coordinator.partialInput),
        boundary: coordinator.lastTurnBoundary,
        completed: coordinator.completedInputs.map(content),
      }).toEqual(expected)
      expect(coordinator.lastSeq).toBe(steps.length)
      const open = await readOpenTurn(dir)
      expect(open.isPartialTurn).toBe(expected.partial)
      expect(content(open.partialInput)).toBe(expected.input)
      expect(open.lastTurnBoundary).toBe(expected.boundary)
    }
  })

  it('are known without a journal', async () => {
    expect(await readOpenTurn(`${tempDir()}/none`)).toEqual({
      isPartialTurn: false,
      unansweredCalls: [],
      partialInput: undefined,
      lastTurnBoundary: 0,
    })
    await expect(Coordinator.open(tempDir())).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})

describe('run', () => {
  it('emits completed inputs again, in order, and answers with what the world said then', async () => {
    const dir = await journalOf([
      ['io.input', { content: 'one' }],
      ['agent.turn.start'],
      ['llm.response', { content: 'L1' }],
      ['tool.result', { id: 't1', name: 'a', output: 'A1' }],
      ['tool.result', { id: 't2', name: 'b', output: 'B1' }],
      ['llm.response', { content: 'L2' }],
      ['agent.turn.end'],
      ['io.input', { content: 'two' }],
      ['agent.turn.start'],
      ['hitl.responded', { approved: true }],
      ['tool.result', { id: 't3', name: 'a', output: 'A2' }],
      ['agent.turn.end'],
      ['io.input', { content: 'never finished' }],
      ['agent.turn.start'],
      ['llm.response', { content: 'L3' }],
    ])
    const coordinator = await Coordinator.open(dir)
    const seen: unknown[] = []
    const emit = async (type: string, payload: unknown): Promise<void> => {
      expect(coordinator.isReplaying).toBe(true)
      seen.push([type, payload])
      if ((payload as { content: string }).content === 'one') {
        seen.push(await coordinator.llmResponse())
        // Out of the order they were given: by name and id.
        seen.push(await coordinator.toolResult({ name: 'b', id: 't2' }))
        seen.push(await coordinator.toolResult({ name: 'a' }))
        seen.push(await coordinator.llmResponse())
      } else {
        seen.push(await coordinator.toolResult({ name: 'a', id: 'unknown' }))
        seen.push(await coordinator.hitlResponse())
        seen.push(await coordinator.toolResult({ name: 'a' }))
        // Belongs to the turn that never ended.
        seen.push(await coordinator.llmResponse())
      }
    }
    expect(await coordinator.run({ emit })).toBe(2)
    expect(seen).toEqual([
      ['io.input', { content: 'one' }],
      { content: 'L1' },
      { id: 't2', name: 'b', output: 'B1' },
      { id: 't1', name: 'a', output: 'A1' },
      { content: 'L2' },
      ['io.input', { content: 'two' }],
      { id: 't3', name: 'a', output: 'A2' },
      { approved: true },
      undefined,
      undefined,
    ])
    expect(coordinator.isReplaying).toBe(false)
    expect(await coordinator.llmResponse()).toBeUndefined()
    expect(await coordinator.run({ emit: async () => undefined })).toBe(2)
  })

  it('prefers the tool cache, and does not hand the same result to the next call', async () => {
    const dir = await journalOf([
      ['io.input', { content: 'one' }],
      ['agent.turn.start'],
      ['tool.result', { name: 'a', output: 'first' }],
      ['tool.result', { name: 'a', output: 'second' }],
      ['agent.turn.end'],
    ])
    new ToolCache(dir).put('a', { x: 1 }, { name: 'a', output: 'cached' })
    const coordinator = await Coordinator.open(dir)
    const outputs: unknown[] = []
    await coordinator.run({
      emit: async () => {
        outputs.push(await coordinator.toolResult({ name: 'a', arguments: { x: 1 } }))
        outputs.push(await coordinator.toolResult({ name: 'a', arguments: { x: 2 } }))
      },
    })
    expect(outputs).toMatchObject([{ output: 'cached' }, { output: 'second' }])
  })

  it('gives concurrent askers an answer each', async () => {
    const answers: Step[] = Array.from({ length: 50 }, (_, i) => ['llm.response', { i }])
    const dir = await journalOf([['io.input'], ['agent.turn.start'], ...answers, ['agent.turn.end']])
    const coordinator = await Coordinator.open(dir)
    await coordinator.run({
      emit: async () => {
        const got = await Promise.all(answers.map(() => coordinator.llmResponse()))
        expect(got).toEqual(answers.map(([, payload]) => payload))
      },
    })
  })

  it('stops at a turn that takes too long, naming it', async () => {
    const clock = new ManualClock()
    const coordinator = await Coordinator.open(await journalOf([...turn('one'), ...turn('two')]))
    const started: string[] = []
    const running = coordinator.run(
      {
        emit: (_, payload) => {
          started.push((payload as { content: string }).content)
          setImmediate(() => clock.advance(500))
          return new Promise(() => undefined)
        },
      },
      { turnTimeoutMs: 500, clock },
    )
    await expect(running).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('input 1 ') as unknown,
    })
    expect(started).toEqual(['one'])
    expect(coordinator.isReplaying).toBe(false)
    expect(clock.pending).toBe(0)
  })

  it('stops when it is aborted, and refuses to run twice at once', async () => {
    const coordinator = await Coordinator.open(await journalOf(turn('one')))
    const controller = new AbortController()
    const running = coordinator.run({ emit: () => new Promise(() => undefined) }, { signal: controller.signal })
    while (!coordinator.isReplaying) await new Promise(setImmediate)
    await expect(coordinator.run({ emit: async () => undefined })).rejects.toMatchObject({ code: 'PRECONDITION' })
    controller.abort(new Error('enough'))
    await expect(running).rejects.toThrow('enough')
  })

  it('gives each turn its own answers, also when the one before did not take all of its', async () => {
    const dir = await journalOf([
      ['io.input', { content: 'one' }],
      ['agent.turn.start'],
      ['llm.response', { content: 'one/a' }],
      ['llm.response', { content: 'one/b' }],
      ['agent.turn.end'],
      ['io.input', { content: 'never finished' }],
      ['agent.turn.start'],
      ['llm.response', { content: 'lost/a' }],
      ...turn('two'),
      ...turn('three'),
    ])
    const coordinator = await Coordinator.open(dir)
    const got: unknown[] = []
    await coordinator.run({
      emit: async (_, payload) => {
        got.push([(payload as { content: string }).content, await coordinator.llmResponse()])
      },
    })
    expect(got).toEqual([
      ['one', { content: 'one/a' }],
      ['two', { content: 'answer to two' }],
      ['three', { content: 'answer to three' }],
    ])
  })

  it('tells the answers of overlapping turns apart by their turn ids', async () => {
    const dir = await journalOf([
      ['io.input', { content: 'one' }],
      ['agent.turn.start', { turn_id: 'a' }],
      ['io.input', { content: 'two' }],
      ['agent.turn.start', { turn_id: 'b' }],
      ['tool.result', { name: 't', output: 'for one', turn_id: 'a' }],
      ['tool.result', { name: 't', output: 'for two', turn_id: 'b' }],
      ['agent.turn.end', { turn_id: 'b' }],
      ['agent.turn.end', { turn_id: 'a' }],
    ])
    const coordinator = await Coordinator.open(dir)
    const got: unknown[] = []
    await coordinator.run({ emit: async () => void got.push(await coordinator.toolResult({ name: 't' })) })
    expect(got).toMatchObject([{ output: 'for two' }, { output: 'for one' }])
  })

  it('gives a turn nothing that was answered before it began, where answers name no turn', async () => {
    const dir = await journalOf([
      ['io.input', { content: 'one' }],
      ['agent.turn.start', { turn_id: 'a' }],
      ['llm.response', { content: 'for one' }],
      ['io.input', { content: 'two' }],
      ['agent.turn.start', { turn_id: 'b' }],
      ['llm.response', { content: 'for two' }],
      ['agent.turn.end', { turn_id: 'b' }],
      ['agent.turn.end', { turn_id: 'a' }],
    ])
    const coordinator = await Coordinator.open(dir)
    const got: unknown[] = []
    await coordinator.run({ emit: async () => void got.push(await coordinator.llmResponse()) })
    expect(got).toEqual([{ content: 'for two' }, { content: 'for one' }])
  })

  it('refuses to replay a journal that this process is writing, and adds nothing to it', async () => {
    const dir = await journalOf(turn('one'))
    const coordinator = await Coordinator.open(dir)
    const writer = await openWriter(dir)
    await expect(
      coordinator.run({ emit: async (type, payload) => writer.append(event(type, payload)) }),
    ).rejects.toMatchObject({ code: 'LOCKED' })
    await writer.close()
    expect((await Coordinator.open(dir)).lastSeq).toBe(4)
  })
})
