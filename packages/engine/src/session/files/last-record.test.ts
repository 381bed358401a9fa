import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { keepingLogger } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../../test/session/open-test-workspace.ts'

const PATH = 'context/conversation.jsonl'
const linesOf = (dir: string): string[] => readFileSync(join(dir, PATH), 'utf8').split('\n')

describe('a record that is appended to a file of JSON lines', () => {
  it.each(['{"n":1}', '{"n":1}\n'])(
    'begins a line of its own, whatever was there before ended with: %j',
    async (before) => {
      const { workspace, dir } = await openTestWorkspace()
      writeFileSync(join(dir, PATH), before)
      await workspace.appendFile(PATH, '{"n":2}')
      await workspace.appendFile(PATH, '{"n":3}\n')
      // Somebody else who forgets it, while we run.
      appendFileSync(join(dir, PATH), '{"n":4}')
      await workspace.appendFile(PATH, '{"n":5}\n')
      expect(linesOf(dir)).toEqual(['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}', '{"n":5}', ''])
    },
  )

  it.each([
    ['cut off', '{"n":1}\n', '{"role":"user","con'],
    ['of NUL bytes', '{"n":1}\n', '\0\0\0\0'],
    ['cut off, and longer than a block', `{"n":1}\n`, `{"text":"${'x'.repeat(200_000)}`],
    ['cut off, and all there is', '', '{"n'],
  ])(
    'is not swallowed by a record that a crash left %s: that one is put aside and told',
    async (_what, whole, torn) => {
      const logger = keepingLogger()
      const { workspace, dir, seen } = await openTestWorkspace({ logger })
      writeFileSync(join(dir, PATH), whole + torn)
      await workspace.appendFile(PATH, '{"n":2}\n')
      expect(readFileSync(join(dir, PATH), 'utf8')).toBe(`${whole}{"n":2}\n`)
      const keptAt = `${PATH}.torn-${whole.length}`
      expect(readFileSync(join(dir, keptAt), 'utf8')).toBe(torn)
      expect(logger.lines).toContainEqual(
        expect.objectContaining({
          level: 'warn',
          fields: expect.objectContaining({ path: PATH, offset: whole.length, kept_at: keptAt }),
        }),
      )
      expect(seen.events).toContainEqual(expect.objectContaining({ path: keptAt }))
    },
  )

  it('may be appended in pieces, which stay one record', async () => {
    const { workspace, dir } = await openTestWorkspace()
    for (const piece of ['{"n":', '1', '}\n', '{"n":2}\n']) await workspace.appendFile(PATH, piece)
    expect(linesOf(dir)).toEqual(['{"n":1}', '{"n":2}', ''])
    expect(readdirSync(join(dir, 'context'))).toEqual(['conversation.jsonl'])
  })

  it('is no business of other files', async () => {
    const { workspace, dir } = await openTestWorkspace()
    writeFileSync(join(dir, 'files/log.txt'), 'one')
    await workspace.appendFile('files/log.txt', 'two')
    expect(readFileSync(join(dir, 'files/log.txt'), 'utf8')).toBe('onetwo')
  })
})
