import { existsSync, rmSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { main } from '../src/index.ts'
import { recorded } from './recorded-output.ts'

const FS_MODULE = '@nexus/objectstore-fs'

describe('nexus demo', () => {
  it.each(['mirror', 'versioned'])(
    'shows that everything of the last completed turn came back (%s)',
    async (layout) => {
      const output = recorded()
      expect(await main(['demo', '--import', FS_MODULE, '--seed', '7', '--layout', layout], output)).toBe(0)
      const text = output.lines.join('\n')
      expect(text).toContain('killed with SIGKILL')
      expect(text).toContain('rightly lost')
      expect(text).not.toContain('DIFFERS')
    },
  )

  it('prints one JSON object, keeps the directories when asked, and is the same for the same seed', async () => {
    const output = recorded()
    expect(await main(['demo', '--import', FS_MODULE, '--seed', '11', '--json', '--keep'], output)).toBe(0)
    const story = JSON.parse(output.lines.join('\n')) as {
      ok: boolean
      seed: number
      dir: string
      checks: { ok: boolean }[]
    }
    expect(story).toMatchObject({ ok: true, seed: 11 })
    expect(story.checks.length).toBeGreaterThan(7)
    expect(existsSync(story.dir)).toBe(true)
    rmSync(story.dir, { recursive: true })
  })

  it('fails with the cause when the backend can not be loaded', async () => {
    const output = recorded()
    expect(await main(['demo', '--import', '@nexus/no-such-backend'], output)).toBe(1)
    expect(output.notes.join('\n')).toContain('@nexus/no-such-backend')
  })
})
