import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { Readable } from 'node:stream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { main } from '../src/index.ts'
import { recorded } from './recorded-output.ts'

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-run-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** A configuration in a directory of its own. */
function configIn(dir: string, plugins: object = {}): string {
  const path = join(dir, 'config.yaml')
  const core = { sessions: { root: join(dir, 'sessions') }, storage: { root: dir } }
  writeFileSync(path, JSON.stringify({ core, plugins }))
  return path
}

const scripted = {
  'nexus.llm.scripted': {
    answers: [
      {
        input: '/^write (\\S+)$/',
        steps: [
          { tool_calls: [{ name: 'write_file', arguments: { path: '{{1}}', content: 'x' } }] },
          { content: 'wrote {{1}}' },
        ],
      },
      { input: 'fail', steps: [{ tool_calls: [{ name: 'list_files' }] }] },
      { steps: [{ content: 'you said {{input}}' }] },
    ],
  },
}

async function run(
  args: readonly string[],
  lines: readonly string[] = [],
): Promise<{ code: number } & ReturnType<typeof recorded>> {
  const output = recorded()
  const code = await main(['run', ...args], output, Readable.from(lines.map((line) => `${line}\n`)))
  return { code, ...output }
}

function events(lines: readonly string[]): Record<string, unknown>[] {
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('nexus run', () => {
  it('takes one turn, streams its answer, and says how to go on', async () => {
    const dir = tempDir()
    const { code, pieces, notes } = await run(['-c', configIn(dir, scripted), '--input', 'write a.txt'])
    expect(code).toBe(0)
    expect(pieces.join('')).toBe('wrote a.txt')
    expect(notes[0]).toContain('write_file {"path":"a.txt"')
    const sessionId = /^session (\S+)/.exec(notes.at(-1) ?? '')?.[1] ?? ''
    expect(readFileSync(join(dir, 'sessions', sessionId, 'files', 'a.txt'), 'utf8')).toBe('x')
    const again = await run(['-c', join(dir, 'config.yaml'), '--recall', sessionId, '--json', '--input', 'more'])
    expect(events(again.lines)).toMatchObject([
      { event: 'session', id: sessionId, resumed: true },
      { event: 'delta', text: 'you ' },
      { event: 'delta', text: 'said ' },
      { event: 'delta', text: 'more' },
      { event: 'output', content: 'you said more', turn_id: 'turn-2' },
      { event: 'turn', ok: true },
      { event: 'end', turn_count: 2 },
    ])
  })

  it('takes a turn for every line it is given, until there are none', async () => {
    const { code, pieces } = await run(['-c', configIn(tempDir(), scripted)], ['one', '', 'two'])
    expect(code).toBe(0)
    expect(pieces.join('')).toBe('you said oneyou said two')
  })

  it('answers from a file where it is told so', async () => {
    const dir = tempDir()
    const script = join(dir, 'script.yaml')
    writeFileSync(script, '- steps: [{ content: from the file }]')
    const { pieces } = await run(['-c', configIn(dir), '--script', script, '--input', 'x'])
    expect(pieces.join('')).toBe('from the file')
  })

  it('ends with exit code 1 and the reason when its turn failed', async () => {
    const { code, notes } = await run(['-c', configIn(tempDir(), scripted), '--input', 'fail'])
    expect(code).toBe(1)
    expect(notes.filter((note) => note.includes('no step 2'))).toHaveLength(2)
  })

  it('needs a model, and says where it may come from', async () => {
    const { code, notes } = await run(['-c', configIn(tempDir()), '--input', 'x'])
    expect(code).toBe(2)
    expect(notes.join('\n')).toMatch(/--model .* --script /)
  })

  it('leaves it to the engine to say what is wrong with a configuration', async () => {
    const path = join(tempDir(), 'bad.yaml')
    writeFileSync(path, 'core: { object_stor: {} }')
    const { code, notes } = await run(['-c', path, '--script', 'x', '--input', 'x'])
    expect(code).toBe(2)
    expect(notes.join('\n')).toContain('object_store')
  })
})

describe('nexus replay', () => {
  it('says that a session is the same, or where it is not', async () => {
    const dir = tempDir()
    const config = configIn(dir, scripted)
    const chat = await run(['-c', config, '--json'], ['write a.txt', 'hello'])
    const sessionId = String(events(chat.lines)[0]?.['id'])
    const same = recorded()
    expect(await main(['replay', sessionId, '-c', config], same)).toBe(0)
    expect(same.lines).toEqual([expect.stringMatching(/^2 turns, \d+ events: the same$/)])
    const journal = join(dir, 'sessions', sessionId, 'journal', 'events.jsonl')
    writeFileSync(journal, readFileSync(journal, 'utf8').replaceAll('"you said hello","role"', '"I said hello","role"'))
    const other = recorded()
    expect(await main(['replay', sessionId, '-c', config], other)).toBe(1)
    expect(other.lines.join('\n')).toMatch(
      /^turn 2, event \d+ differs\n  session: io.output .*I said.*\n  replay:  io.output .*you said/,
    )
  })

  it('branches from a turn under another configuration, and tells what became different', async () => {
    const dir = tempDir()
    const config = configIn(dir, scripted)
    const chat = await run(['-c', config, '--json'], ['write a.txt', 'hello'])
    const sessionId = String(events(chat.lines)[0]?.['id'])
    const other = join(dir, 'other.yaml')
    writeFileSync(other, readFileSync(config, 'utf8').replace('you said', 'I heard'))
    const human = recorded()
    const keep = join(dir, 'kept')
    expect(await main(['replay', sessionId, '-c', other, '--from-turn', '2', '--keep', keep], human)).toBe(0)
    expect(human.lines).toEqual([
      'turn 2  hello',
      '  - io.output  you said hello',
      '  + io.output  I heard hello',
      'files: the same',
      'totals:',
      expect.stringMatching(/^ {2}turns {3}2 -> 2$/),
      expect.stringMatching(/^ {2}tokens {2}\d+ -> \d+$/),
      '  cost    0 USD -> 0 USD',
      expect.stringMatching(/^kept in /),
    ])
    expect(readFileSync(join(keep, 'sessions', sessionId, 'files', 'a.txt'), 'utf8')).toBe('x')
    const json = recorded()
    expect(await main(['replay', sessionId, '-c', other, '--from-turn', '1', '--json'], json)).toBe(0)
    expect(events(json.lines)).toMatchObject([
      {
        from_turn: 1,
        turns: [
          { turn: 1, same: true },
          { turn: 2, same: false },
        ],
        files: [],
        not_rebuilt: [],
      },
    ])
    const wrong = recorded()
    expect(await main(['replay', sessionId, '-c', other, '--from-turn', '9'], wrong)).toBe(2)
    expect(wrong.notes.join('\n')).toContain('the session has 2')
  })

  it('needs nothing of what the run was told on its command line', async () => {
    const dir = tempDir()
    const script = join(dir, 'script.yaml')
    writeFileSync(script, '- steps: [{ content: from the file }]')
    const chat = await run(['-c', configIn(dir), '--script', script, '--json', '--input', 'x'])
    const sessionId = String(events(chat.lines)[0]?.['id'])
    const same = recorded()
    expect(await main(['replay', sessionId, '-c', join(dir, 'config.yaml')], same)).toBe(0)
  })
})

describe('Ctrl-C', () => {
  /** A server that begins an answer and never ends it. */
  async function hangingModel(): Promise<string> {
    const server = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'begun ' } }] })}\n\n`)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  }

  it('cancels the turn under way, and stops when there is none', async () => {
    const dir = tempDir()
    const config = configIn(dir, { 'nexus.llm.openai_compatible': { base_url: await hangingModel(), model: 'm' } })
    const bin = join(import.meta.dirname, '..', 'src', 'bin.ts')
    const child = spawn(process.execPath, [...process.execArgv, bin, 'run', '-c', config, '--json'], { stdio: 'pipe' })
    let out = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text
      if (text.includes('"begun "')) child.kill('SIGINT')
      const turns = out.split('"event":"turn"').length - 1
      if (!text.includes('"event":"turn"')) return
      if (turns === 1) child.stdin.write('second\n')
      else child.kill('SIGINT')
    })
    child.stdin.write('first\n')
    const code = await new Promise((resolve) => child.once('close', resolve))
    expect(code).toBe(0)
    const turns = events(out.trim().split('\n')).filter(({ event }) => event === 'turn')
    expect(turns).toEqual([
      { event: 'turn', ok: false, error: 'turn turn-1 was cancelled: Ctrl-C' },
      { event: 'turn', ok: false, error: 'turn turn-2 was cancelled: Ctrl-C' },
    ])
  })
})
