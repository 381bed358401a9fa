import { describe, expect, it } from 'vitest'
import { EXIT } from './exit-codes.ts'
import { main } from './main.ts'
import { recorded } from '../test/recorded-output.ts'

describe('the command line', () => {
  it.each([
    [[], EXIT.usage],
    [['help'], EXIT.ok],
    [['--help'], EXIT.ok],
    [['demo', '--help'], EXIT.ok],
    [['help', 'demo'], EXIT.ok],
  ])('answers %j with its usage', async (args, code) => {
    const output = recorded()
    expect(await main(args, output)).toBe(code)
    expect(output.lines.join('\n')).toMatch(/^Usage: nexus/)
    expect(output.lines.join('\n')).toContain('demo')
  })

  it.each(['dmeo', '__proto__', 'constructor'])(
    'refuses the command "%s" and says where the commands are',
    async (name) => {
      const output = recorded()
      expect(await main([name], output)).toBe(EXIT.usage)
      expect(output.notes.join('\n')).toContain(`unknown command '${name}'`)
    },
  )

  it.each([
    [['demo'], '--import'],
    [['demo', '--import', 'x', '--seed', 'many'], '--seed'],
    [['demo', '--import', 'x', '--seed', '-1'], '--seed'],
    [['demo', '--import', 'x', '--loud'], '--loud'],
    [['demo', '--import', 'x', '--import', 'y'], '--import'],
    [['sessions', 'lits'], 'list'],
    [['sessions', 'show'], 'id'],
    [['sessions', 'show', 's1', '--from', 'moon'], 'local'],
    [['run'], '--config'],
    [['run', '-c', 'x.yaml', 'more'], 'arguments'],
  ])('refuses %j before anything is touched and names what is wrong', async (args, named) => {
    const output = recorded()
    expect(await main(args, output)).toBe(EXIT.usage)
    expect(output.notes.join('\n')).toContain(named)
    expect(output.lines).toEqual([])
  })
})
