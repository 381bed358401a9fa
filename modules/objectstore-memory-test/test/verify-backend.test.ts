import { objectStoreConfig, register, unregister } from '@nexus/objectstore'
import { verifyBackend } from '@nexus/objectstore-contract'
import { afterEach, describe, expect, it } from 'vitest'
import { MemoryBackend, type StoredObject } from '../src/driver.ts'

const logger = { debug: drop, info: drop, warn: drop, error: drop }
function drop(): void {}
const config = objectStoreConfig({ backend: 'verified', bucket: 'b', prefix: 'deploy' })

afterEach(() => unregister('verified'))

/** Registers a driver over one bucket that holds an object of somebody else. */
function registered(change: (backend: MemoryBackend) => object = () => ({})): Map<string, StoredObject> {
  const objects = new Map<string, StoredObject>()
  objects.set('deploy/sessions/mine', { bytes: Buffer.from('not yours'), modTime: new Date() })
  register('verified', ({ bucket, prefix, options }) => {
    if (bucket !== 'b') throw new Error('no such bucket')
    if (Object.keys(options).length > 0) throw Object.assign(new Error('unknown option'), { code: 'x' })
    const backend = new MemoryBackend({ objects, prefix })
    return Object.assign(backend, change(backend))
  })
  return objects
}

describe('verifyBackend', () => {
  it('runs the suite below a prefix of its own, and leaves the bucket as it was', async () => {
    const objects = registered()
    const report = await verifyBackend(config, { logger, listProbeCount: 30 })
    expect([...objects.keys()]).toEqual(['deploy/sessions/mine'])
    expect(report.prefix).toMatch(/^deploy\/nexus-verify-[0-9a-f]{16}$/)
    expect(report.leftovers).toEqual([])
    const failed = report.cases.filter(({ status }) => status === 'failed').map(({ name }) => name)
    expect(failed).toEqual(['an unknown option is refused by name'])
    const isRun = (name: string): string | undefined => report.cases.find((each) => each.name === name)?.status
    expect(isRun('prefix keeps two stores of one bucket apart')).toBe('passed')
    expect(isRun('a missing bucket is an error of every read, and no read of it is a miss')).toBe('passed')
    expect(report.table).toContain('| put stores the bytes as they are | passed |')
    expect(report.table).toContain('### an unknown option is refused by name')
  })

  it('cleans up when it is aborted', async () => {
    const objects = registered()
    const abort = new AbortController()
    const run = verifyBackend(config, { logger, signal: abort.signal, onCase: () => abort.abort(new Error('enough')) })
    await expect(run).rejects.toThrow('enough')
    expect([...objects.keys()]).toEqual(['deploy/sessions/mine'])
  })

  it('says what it could not remove', async () => {
    registered(() => ({ delete: () => Promise.reject(new Error('no permission')) }))
    const report = await verifyBackend(config, { logger, listProbeCount: 5 })
    expect(report.leftovers.length).toBeGreaterThan(0)
    expect(report.table).toContain('Left behind: ')
  })

  it('shows no credential in its table', async () => {
    registered(() => ({ flush: () => Promise.reject(new Error('password=hunter2')) }))
    const report = await verifyBackend(config, { logger, listProbeCount: 5 })
    expect(report.table).toContain('password=[redacted]')
    expect(report.table).not.toContain('hunter2')
  })
})
