import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../test/session/open-test-workspace.ts'
import { tempDir } from '@nexus/host/testing'
import { silentLogger } from '@nexus/host'
import { endedMeta, newSessionMeta, parseMeta, readSessionMeta, resumedMeta, serializeMeta } from './meta.ts'
import { openWorkspace } from './workspace.ts'

const START_MS = Date.UTC(2026, 0, 2)

describe('session metadata', () => {
  it('round-trip, with fields that this version does not know', () => {
    const ended = endedMeta(
      newSessionMeta('s1', START_MS, { profile: 'p', plugins: ['a'], labels: { k: 'v' } }),
      START_MS + 1,
    )
    expect(parseMeta(serializeMeta(ended), 'x')).toEqual(ended)
    const later = { ...(JSON.parse(serializeMeta(ended)) as object), from_the_future: { deep: [1] } }
    const parsed = parseMeta(JSON.stringify(later), 'x')
    expect(parsed.extra).toEqual({ from_the_future: { deep: [1] } })
    expect(JSON.parse(serializeMeta(parsed))).toEqual(later)
  })

  it('have an end exactly when they are ended', () => {
    const meta = newSessionMeta('s1', START_MS)
    expect(serializeMeta(meta)).not.toContain('ended_at')
    expect(JSON.parse(serializeMeta(endedMeta(meta, START_MS)))).toMatchObject({
      ended_at: '2026-01-02T00:00:00.000Z',
      status: 'ended',
    })
    const resumed = resumedMeta(endedMeta(meta, START_MS), { labels: { new: 'one' } })
    expect(resumed).toEqual({ ...meta, labels: { new: 'one' } })
    expect('endedAt' in resumed).toBe(false)
  })

  it('take a label named __proto__ for a label', () => {
    const meta = parseMeta(
      `{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","labels":{"__proto__":"x"}}`,
      'x',
    )
    expect(Object.entries(meta.labels)).toEqual([['__proto__', 'x']])
    expect(JSON.parse(serializeMeta(resumedMeta(meta))).labels).toHaveProperty('__proto__', 'x')
    expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  })

  it.each([
    ['{', 'not JSON'],
    ['', 'not JSON'],
    ['[]', 'no object'],
    ['null', 'no object'],
    ['{}', '"id"'],
    ['{"id":"s","started_at":"yesterday","status":"active"}', '"started_at"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"asleep"}', '"status"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","turn_count":"3"}', '"turn_count"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","cost_usd":-1}', '"cost_usd"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","plugins":[1]}', '"plugins"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","labels":{"a":1}}', '"labels"'],
    ['{"id":"s","started_at":"2026-01-02T00:00:00Z","status":"active","ended_at":5}', '"ended_at"'],
  ])('refuse %s', (text, message) => {
    expect(() => parseMeta(text, '/p')).toThrow(
      expect.objectContaining({ code: 'CORRUPT', key: '/p', message: expect.stringContaining(message) }),
    )
  })

  it('are undefined where there are none', async () => {
    expect(await readSessionMeta(tempDir())).toBeUndefined()
  })
})

describe('openWorkspace', () => {
  it('marks a session active again, silently, and keeps its counters', async () => {
    const { dir, workspace } = await openTestWorkspace()
    await workspace.saveMeta(endedMeta({ ...workspace.meta(), turnCount: 7, costUsd: 0.5 }, START_MS))
    const heard: string[] = []
    const again = await openWorkspace({ id: 's1', dir, bus: { emit: async (type) => void heard.push(type) } })
    expect(again.meta()).toMatchObject({ status: 'active', turnCount: 7, costUsd: 0.5 })
    expect(await readSessionMeta(dir)).toEqual(again.meta())
    expect(heard).toEqual([])
  })

  it('announces saved metadata as updated', async () => {
    const { workspace, seen } = await openTestWorkspace()
    const saved = workspace.saveMeta({ ...workspace.meta(), turnCount: 1 })
    expect(workspace.meta().turnCount).toBe(1)
    await saved
    expect(seen.take()).toMatchObject([{ type: 'updated', path: 'metadata/session.json', offset: 0 }])
    rmSync(join(workspace.dir, 'metadata/session.json'))
    await workspace.saveMeta(workspace.meta())
    expect(seen.take()).toMatchObject([{ type: 'updated', path: 'metadata/session.json', offset: 0 }])
    await expect(workspace.saveMeta({ ...workspace.meta(), id: 'other' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('begins metadata anew where there are none, and in a tree without the directory', async () => {
    const dir = tempDir()
    const workspace = await openWorkspace({ id: 's9', dir, profile: { profile: 'p' } })
    expect(workspace.meta()).toMatchObject({ id: 's9', profile: 'p', status: 'active' })
    expect(existsSync(join(dir, 'metadata/session.json'))).toBe(true)
  })

  it.each(['', '\0\0\0', '{"id":'])('sets damaged metadata (%j) aside and opens all the same', async (damaged) => {
    const dir = tempDir()
    mkdirSync(join(dir, 'metadata'))
    writeFileSync(join(dir, 'metadata/session.json'), damaged)
    const warnings: object[] = []
    const logger = { ...silentLogger, warn: (fields: object) => void warnings.push(fields) }
    await openWorkspace({ id: 's1', dir, logger })
    expect(warnings).toMatchObject([{ session_id: 's1', err: { code: 'CORRUPT' } }])
    const kept = readdirSync(join(dir, 'metadata')).filter((name) => name.includes('damaged'))
    expect(kept).toHaveLength(1)
    expect(readFileSync(join(dir, 'metadata', kept[0] as string), 'utf8')).toBe(damaged)
  })

  it('takes over the metadata of a copied session, with a warning', async () => {
    const { dir } = await openTestWorkspace()
    const warnings: object[] = []
    const logger = { ...silentLogger, warn: (fields: object) => void warnings.push(fields) }
    const copy = await openWorkspace({ id: 'copy', dir, logger })
    expect(copy.meta().id).toBe('copy')
    expect(warnings).toEqual([{ session_id: 'copy', named: 's1' }])
  })

  it('refuses a bad id and a missing directory', async () => {
    await expect(openWorkspace({ id: '../x', dir: tempDir() })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(openWorkspace({ id: 's1', dir: '/nowhere/at/all' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})
