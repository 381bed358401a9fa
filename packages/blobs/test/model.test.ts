import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import * as fc from 'fast-check'
import assert from 'node:assert/strict'
import { describe, expect, it } from 'vitest'
import { BlobStore } from '../src/index.ts'
import { blobPaths } from '../src/layout.ts'
import { sha256Of } from './scenario.ts'

interface ModelBlob {
  data: Buffer
  mediaType: string
  lastUse: number
}

interface Real {
  dir: string
  store: BlobStore
}

interface Model {
  blobs: Map<string, ModelBlob>
  time: number
}

const contents = Array.from({ length: 8 }, (_, index) => Buffer.alloc(index * 37, index))
const BUDGET = 400

/** Gives every use a distinct time, so that the order of eviction is decided. */
function stamp(real: Real, model: Model, sha256: string): void {
  const blob = model.blobs.get(sha256)
  if (blob === undefined) return
  blob.lastUse = ++model.time
  utimesSync(blobPaths(real.dir, sha256).bin, model.time, model.time)
}

function command(name: string, run: (model: Model, real: Real) => Promise<void>): fc.AsyncCommand<Model, Real> {
  return { check: () => true, run, toString: () => name }
}

const commands = [
  fc.tuple(fc.nat(7), fc.constantFrom('a/a', 'b/b', ''), fc.boolean()).map(([index, mediaType, streamed]) =>
    command(`put ${index} ${mediaType} ${streamed ? 'streamed' : ''}`, async (model, real) => {
      const data = contents[index] ?? Buffer.alloc(0)
      const sha256 = sha256Of(data)
      const info = await real.store.put(streamed ? Readable.from([data]) : data, mediaType)
      const known = model.blobs.get(sha256)
      assert.deepEqual([info.sha256, info.size, info.mediaType], [sha256, data.length, known?.mediaType ?? mediaType])
      if (known === undefined) model.blobs.set(sha256, { data, mediaType, lastUse: 0 })
      stamp(real, model, sha256)
    }),
  ),
  fc.nat(7).map((index) =>
    command(`get ${index}`, async (model, real) => {
      const sha256 = sha256Of(contents[index] ?? Buffer.alloc(0))
      const known = model.blobs.get(sha256)
      assert.equal(await real.store.has(sha256), known !== undefined)
      if (known === undefined) return assert.rejects(real.store.get(sha256), { code: 'NOT_FOUND' })
      const content = await real.store.get(sha256, { verify: true })
      assert.deepEqual(content.data, known.data)
      assert.equal(content.mediaType, known.mediaType)
      stamp(real, model, sha256)
    }),
  ),
  fc.nat(7).map((index) =>
    command(`delete ${index}`, async (model, real) => {
      const sha256 = sha256Of(contents[index] ?? Buffer.alloc(0))
      assert.equal(await real.store.delete(sha256), model.blobs.delete(sha256))
    }),
  ),
  fc.constant(
    command('sweep', async (model, real) => {
      let total = [...model.blobs.values()].reduce((sum, blob) => sum + blob.data.length, 0)
      const order = [...model.blobs].toSorted(([, a], [, b]) => a.lastUse - b.lastUse)
      let evicted = 0
      let freed = 0
      for (const [sha256, { data }] of order) {
        if (total <= BUDGET) break
        total -= data.length
        freed += data.length
        evicted++
        model.blobs.delete(sha256)
      }
      assert.deepEqual(await real.store.sweep(), { evicted, freed, overBudgetBytes: 0 })
    }),
  ),
  fc.constant(
    command('reopen', (_model, real) => {
      real.store = BlobStore.open(real.dir, { byteBudget: BUDGET, fsync: false })
      return Promise.resolve()
    }),
  ),
]

describe('the blob store', () => {
  it('behaves like a map from digests to bytes with a budget', async () => {
    await fc.assert(
      fc.asyncProperty(fc.commands(commands, { maxCommands: 40 }), async (sequence) => {
        const dir = mkdtempSync(join(tmpdir(), 'nexus-blob-model-'))
        try {
          const real: Real = { dir, store: BlobStore.open(dir, { byteBudget: BUDGET, fsync: false }) }
          const model: Model = { blobs: new Map(), time: 1000 }
          await fc.asyncModelRun(() => ({ model, real }), sequence)
          const total = [...model.blobs.values()].reduce((sum, blob) => sum + blob.data.length, 0)
          expect(await real.store.totalBytes()).toBe(total)
          expect(await real.store.verify()).toEqual({ blobs: model.blobs.size, bytes: total })
          const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.'))
          expect(files).toHaveLength(model.blobs.size * 2)
        } finally {
          rmSync(dir, { recursive: true, force: true })
        }
      }),
      { numRuns: 60 },
    )
  })

  it('keeps bytes apart however a stream is cut into chunks', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'nexus-blob-chunks-'))
    try {
      const store = BlobStore.open(dir, { fsync: false })
      await fc.assert(
        fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 500 }), { maxLength: 20 }), async (chunks) => {
          const whole = Buffer.concat(chunks)
          const { sha256, size } = await store.put(Readable.from(chunks))
          expect({ sha256, size }).toEqual({ sha256: sha256Of(whole), size: whole.length })
          expect((await store.get(sha256)).data.equals(whole)).toBe(true)
        }),
        { numRuns: 100 },
      )
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  })
})
