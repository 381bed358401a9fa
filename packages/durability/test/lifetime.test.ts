import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { newDir } from './memory-store.ts'

async function runChild(story: 'forgets' | 'awaits'): Promise<{ code: number | null; output: string }> {
  const script = fileURLToPath(new URL('./lifetime-child.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, script, story, newDir()], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 50_000,
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output }
}

describe('the life of the process', () => {
  it('is not prolonged by heartbeats and retries of a run that nobody stopped', async () => {
    expect(await runChild('forgets')).toEqual({ code: 0, output: 'the end\n' })
  })

  it('lasts until a stop that waits for a silent store has given up', async () => {
    expect(await runChild('awaits')).toEqual({ code: 0, output: 'the end\n' })
  })
})
