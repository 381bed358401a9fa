import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it, onTestFinished } from 'vitest'
import { collect, Lab } from '../../test/lab.ts'
import { agentLoop } from '../agent/loop.ts'
import { conversationMemory } from '../conversation/memory.ts'
import { scriptedModel } from '../llm/scripted.ts'
import { fileTools } from '../tools/files.ts'
import { evalCase } from './eval-case.ts'
import { type EvalCaseInput, runEval } from './run-eval.ts'

const usage = { prompt_tokens: 90, completion_tokens: 10 }
const config = {
  plugins: {
    'nexus.llm.scripted': {
      answers: [
        {
          input: 'write',
          steps: [
            { tool_calls: [{ name: 'write_file', arguments: { path: 'a.md', content: 'A title' } }], usage },
            { content: 'I wrote it.', usage },
          ],
        },
        { input: 'hello', steps: [{ content: 'Hi.', usage }] },
      ],
    },
  },
}
const plugins = (): ReturnType<typeof agentLoop>[] => [conversationMemory(), agentLoop(), fileTools(), scriptedModel()]

function newRun(cases: EvalCaseInput[]): Parameters<typeof runEval>[0] {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-eval-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return { runId: 'run-1', dir, cases, config, plugins }
}

describe('an evaluation run', () => {
  it('tells of each case what it did and what was missing, and is published without its sessions', async () => {
    const backend = createMemoryBackend()
    const store = new ObjectStore(backend, { name: 'memory-test' })
    const run = newRun([
      {
        name: 'good',
        inputs: ['hello', 'write'],
        expect: {
          outputs_contain: ['wrote'],
          outputs_match: ['^Hi'],
          tools_called: ['write_file'],
          tools_not_called: ['read_file'],
          files: { 'files/a.md': 'title' },
          max_tokens: 300,
        },
      },
      {
        name: 'bad',
        inputs: ['write', 'unknown'],
        expect: {
          outputs_contain: ['sorry'],
          outputs_match: ['\\d{3}'],
          tools_called: ['read_file'],
          tools_not_called: ['write_file'],
          files: { 'files/a.md': 'nothing', 'files/b.md': '' },
          max_tokens: 199,
        },
      },
    ])
    const result = await runEval({ ...run, store })
    expect(result).toMatchObject({
      passed: false,
      cases: [
        { name: 'good', passed: true, failures: [], turn_count: 2, tokens_used: 300 },
        {
          name: 'bad',
          failures: [
            'no output contains "sorry"',
            'no output fits /\\d{3}/',
            'read_file was not called',
            'write_file was called',
            'files/a.md doesn\'t contain "nothing"',
            'there is no files/b.md',
            '1 turns failed',
            '200 tokens were used, more than 199',
          ],
        },
      ],
      published: { ok: true, objects: 5 },
    })
    expect([...(await backend.list('eval/run-1'))].map(({ key }) => key).toSorted()).toEqual([
      'eval/run-1/bad/conversation.jsonl',
      'eval/run-1/bad/result.json',
      'eval/run-1/good/conversation.jsonl',
      'eval/run-1/good/result.json',
      'eval/run-1/summary.json',
    ])
    expect(JSON.parse(readFileSync(join(run.dir, 'summary.json'), 'utf8'))).toMatchObject({
      run_id: 'run-1',
      passed: false,
    })
  })

  it.each([
    ['wrong expectations', { name: 'x', inputs: [], expect: { outputs_match: ['('], output: 'x' } }],
    ['a name that is no directory', { name: '../x', inputs: [], expect: {} }],
  ])('refuses %s', async (_, wrong) => {
    await expect(runEval(newRun([wrong]))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })
})

describe('a session that is watched', () => {
  it('is told its verdict when it stops', async () => {
    const watch = evalCase()
    const engine = await new Lab().engine({
      plugins: [...plugins(), watch.plugin],
      blocks: { ...config.plugins, 'nexus.eval.case': { name: 'alone', expect: { outputs_contain: ['Hi.'] } } },
    })
    const results = collect(engine, 'eval.case.result')
    expect(await watch.verdict()).toMatchObject({ passed: false })
    await engine.submitInput('hello')
    await engine.stop()
    expect(results).toMatchObject([{ name: 'alone', passed: true, failures: [] }])
  })
})
