import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

const module = new URL('pino-logger.ts', import.meta.url).href

function run(level: string, body: string): { code: number | null; lines: Record<string, unknown>[] } {
  const script = `import { createPinoLogger } from ${JSON.stringify(module)}\nconst logger = await createPinoLogger(${JSON.stringify(level)})\n${body}`
  const { status, stderr } = spawnSync(process.execPath, [...process.execArgv, '--input-type=module', '-e', script], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  const lines = stderr.split('\n').filter((line) => line !== '')
  return { code: status, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

describe('the default logger', () => {
  it('has written every line when the process exits right after', () => {
    const { code, lines } = run(
      'info',
      `for (let i = 0; i < 5000; i++) logger.info({ i, pad: 'x'.repeat(50) }, 'line')\nprocess.exit(3)`,
    )
    expect(code).toBe(3)
    expect(lines.map(({ i }) => i)).toEqual(Array.from({ length: 5000 }, (_, at) => at))
  })

  it('has written every line when the process is killed right after', () => {
    const { lines } = run(
      'info',
      `for (let i = 0; i < 100; i++) logger.info({ i }, 'line')\nprocess.kill(process.pid, 'SIGKILL')`,
    )
    expect(lines).toHaveLength(100)
  })

  it('writes fields, message and errors with their causes, from its level on', () => {
    const { lines } = run(
      'warn',
      `logger.info({}, 'quiet')\nlogger.warn({ session_id: 's' }, 'loud')\nlogger.error({ err: new Error('outer', { cause: new Error('inner') }) }, 'bad')`,
    )
    expect(lines).toEqual([
      expect.objectContaining({ level: 40, session_id: 's', msg: 'loud', pid: expect.any(Number) }),
      expect.objectContaining({
        level: 50,
        msg: 'bad',
        err: expect.objectContaining({
          message: expect.stringContaining('outer'),
          stack: expect.stringContaining('inner'),
        }),
      }),
    ])
  })
})
