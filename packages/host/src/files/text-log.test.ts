import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { inspectTextLog } from './text-log.ts'

async function inspect(content: string | Buffer): Promise<Awaited<ReturnType<typeof inspectTextLog>>> {
  const path = join(tempDir(), 'log.jsonl')
  writeFileSync(path, content)
  return inspectTextLog(path)
}

describe('an inspection of a text log', () => {
  it.each(['', '{"n":1}\n', '{"n":1}\n\n{"text":"ü"}\n'])('finds nothing in %j', async (content) => {
    expect(await inspect(content)).toMatchObject({ damaged: 0, damage: [], sizeBytes: Buffer.byteLength(content) })
  })

  it('tells what is wrong, with the line and its offset', async () => {
    const whole = '{"n":1}\n'
    const report = await inspect(
      Buffer.concat([
        Buffer.from(`${whole}\0\0\0\0\n${whole}{"cut\n[1]\n`),
        Buffer.from([0x7b, 0xff, 0x7d, 0x0a]),
        Buffer.from('{"n":2}'),
      ]),
    )
    expect(report).toMatchObject({ lines: 7, damaged: 5 })
    expect(report?.damage).toEqual([
      { offset: 8, line: 2, why: 'holds NUL bytes' },
      { offset: 21, line: 4, why: 'is not a JSON object' },
      { offset: 27, line: 5, why: 'is not a JSON object' },
      { offset: 31, line: 6, why: 'is not UTF-8' },
      { offset: 35, line: 7, why: 'ends without a newline' },
    ])
  })

  it('finds a run of NUL bytes of any length, wherever the file is read in pieces', async () => {
    for (const at of [512 * 1024 - 3, 512 * 1024, 700_000]) {
      const content = Buffer.alloc(2_000_000, 'x')
      content.fill(0, at, at + 6)
      content.set(Buffer.from('{"n":1}\n'), 0)
      content[content.length - 1] = 0x0a
      expect((await inspect(content))?.damage).toEqual([{ offset: 8, line: 2, why: 'holds NUL bytes' }])
    }
  })

  it('lists a hundred and counts them all', async () => {
    const report = await inspect('x\n'.repeat(1000))
    expect(report).toMatchObject({ lines: 1000, damaged: 1000 })
    expect(report?.damage).toHaveLength(100)
  })

  it('is none of what is no regular file', async () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'd'))
    symlinkSync('/etc/passwd', join(dir, 'l'))
    for (const name of ['d', 'l', 'none']) expect(await inspectTextLog(join(dir, name))).toBeUndefined()
  })
})
