import { describe, expect, it } from 'vitest'
import { EXIT } from './exit-codes.ts'
import { main } from './main.ts'
import type { Output } from './output.ts'

function recorded(): Output & { lines: string[]; notes: string[] } {
  const lines: string[] = []
  const notes: string[] = []
  return { lines, notes, line: (text) => void lines.push(text), note: (text) => void notes.push(text) }
}

describe('the command line', () => {
  it.each([
    [[], EXIT.usage],
    [['help'], EXIT.ok],
    [['--help'], EXIT.ok],
    [['demo', '--help'], EXIT.ok],
  ])('answers %j with its usage', async (args, code) => {
    const output = recorded()
    expect(await main(args, output)).toBe(code)
    expect(output.lines.join('\n')).toContain('nexus demo')
  })

  it.each(['dmeo', '__proto__', 'constructor'])('refuses the command "%s" and shows the usage', async (name) => {
    const output = recorded()
    expect(await main([name], output)).toBe(EXIT.usage)
    expect(output.notes.join('\n')).toContain(`no command "${name}"`)
  })

  it.each([
    [['demo'], '--import'],
    [['demo', '--import', 'x', '--seed', 'many'], '--seed'],
    [['demo', '--import', 'x', '--seed', '-1'], '--seed'],
    [['demo', '--import', 'x', '--verbose'], '--verbose'],
  ])('refuses %j before anything is touched and names what is wrong', async (args, named) => {
    const output = recorded()
    expect(await main(args, output)).toBe(EXIT.usage)
    expect(output.notes.join('\n')).toContain(named)
    expect(output.lines).toEqual([])
  })
})
