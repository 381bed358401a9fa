import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JournalReader, JournalWriter } from '@nexus/journal'
import { withoutCapabilities } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Lab, storeOf, TREE_KEY, write, type Host } from './durability-fixture.ts'

const ACTIVE = 'journal/events.jsonl'
/** More than the small events of a test, which a snapshot would seal otherwise. */
const ROTATE_BYTES = 16 * 1024

let lab: Lab
let a: Host
let journal: JournalWriter
beforeEach(async () => {
  lab = new Lab()
  a = lab.host()
  mkdirSync(join(a.dir, 'journal'), { mode: 0o700 })
  journal = await open(a)
})
afterEach(async () => {
  await journal.close()
  await lab.remove()
})

function open(host: Host): Promise<JournalWriter> {
  return JournalWriter.open(join(host.dir, 'journal'), {
    fsync: 'none',
    rotateBytes: ROTATE_BYTES,
    sessionId: 'sess-1',
  })
}

function append(count: number, writer: JournalWriter = journal, text = ''): void {
  for (let n = 0; n < count; n++) {
    writer.append({
      ts: '2026-01-01T00:00:00.000Z',
      type: 'x',
      event_id: `event-${writer.lastSeq + 1}`,
      source: 'test',
      session_id: 'sess-1',
      depth: 0,
      payload: { n, text },
    })
  }
}

/** Appends events of which the last makes the active segment due, and seals it. */
async function appendAndRotate(count: number): Promise<void> {
  append(count - 1)
  append(1, journal, 'x'.repeat(2 * ROTATE_BYTES))
  await journal.turnEnded()
}

async function seqsOf(host: Host): Promise<number[]> {
  const reader = await JournalReader.open(join(host.dir, 'journal'))
  const seqs: number[] = []
  for await (const { seq } of reader) seqs.push(seq)
  expect(reader.damage).toEqual([])
  return seqs
}

const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1)
const stores = (): [string, ReturnType<typeof storeOf>][] => [
  ['with get', lab.store],
  ['without get', storeOf(withoutCapabilities(lab.backend, ['get']))],
]

describe('the journal in a snapshot', () => {
  it('is one instant: what is appended later is not half in it', async () => {
    append(5)
    const { committed: manifest } = await lab.snapshot(a, {
      journal,
      failpoint: (name) => {
        if (name === 'snapshot:staged') append(5)
      },
    })
    expect(manifest.journal).toEqual({ last_seq: 5 })
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(await seqsOf(b)).toEqual(upTo(5))
  })

  it('holds each event once when a rotation runs while the rest is stored', async () => {
    append(5)
    const { committed: manifest } = await lab.snapshot(a, {
      journal,
      failpoint: async (name) => {
        if (name !== 'snapshot:staged') return
        await appendAndRotate(1)
      },
    })
    // Sealed after the instant, it repeats what the active segment of the instant holds.
    expect(manifest.objects).toEqual([ACTIVE, 'journal/header.json'])
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(await seqsOf(b)).toEqual(upTo(5))
    await lab.snapshot(a, { journal })
    const c = lab.host({ empty: true })
    await lab.hydrate(c)
    expect(await seqsOf(c)).toEqual(upTo(6))
  })

  it('of a writer that is closed is what lies on the disk', async () => {
    await appendAndRotate(3)
    append(2)
    await journal.close()
    expect((await lab.snapshot(a)).committed.journal).toEqual({ last_seq: 5 })
    expect((await lab.snapshot(a, { journal })).committed.journal).toEqual({ last_seq: 5 })
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(await seqsOf(b)).toEqual(upTo(5))
    // Nothing but sealed segments.
    writeFileSync(join(a.dir, ACTIVE), '')
    expect((await lab.snapshot(a)).committed.journal).toEqual({ last_seq: 3 })
    write(a, 'journal/events-002.jsonl.zst', 'damaged')
    expect((await lab.snapshot(a)).committed.journal).toEqual({ last_seq: 3 })
  })

  it('that is gone is not stored over one that is not', async () => {
    append(3)
    await lab.snapshot(a, { journal })
    await expect(lab.snapshot(lab.host())).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(lab.committed?.journal).toEqual({ last_seq: 3 })
  })
})

describe('a rotation inside an interrupted snapshot', () => {
  it.each(['one', 'three'])(
    'costs no event of the committed generation, after %s of them, at any call',
    async (rotations) => {
      append(5)
      await lab.snapshot(a, { journal })
      const committed = lab.committed
      const bytes = lab.object(ACTIVE)
      for (let n = 0; n < (rotations === 'one' ? 1 : 3); n++) {
        await appendAndRotate(3)
      }
      append(2)
      const from = lab.backend.faults.calls.length
      const objects = new Map(lab.backend.objects)
      await lab.snapshot(a, { journal })
      const calls = lab.backend.faults.calls.length - from
      for (let nth = 1; nth <= calls; nth++) {
        lab.backend.objects.clear()
        for (const [key, object] of objects) lab.backend.objects.set(key, object)
        if (committed !== undefined) lab.committed = committed
        const base = lab.backend.faults.calls.length
        lab.backend.faults.failWhen(({ index }) => index > base + nth)
        await lab.snapshot(a, { journal }).catch(() => undefined)
        lab.backend.faults.heal()
        for (const [, store] of stores()) {
          const host = lab.host({ empty: true })
          const { committed: manifest, mixed } = await lab.hydrate(host, { store, onMixed: 'fail' })
          expect(mixed).toBeUndefined()
          const last = manifest?.journal.last_seq ?? 0
          expect(last).toBe(manifest?.generation === 1 ? 5 : journal.lastSeq)
          expect(await seqsOf(host)).toEqual(upTo(last))
          const active = readFileSync(join(host.dir, ACTIVE), 'utf8')
          expect(active).toBe(manifest?.generation === 1 ? bytes : lab.object(ACTIVE))
        }
      }
    },
  )

  it('is really what the test above repairs: the stored active segment has lost the committed events', async () => {
    append(5)
    await lab.snapshot(a, { journal })
    await appendAndRotate(3)
    lab.backend.faults.failWhen(({ key }) => key.endsWith('manifest.json'))
    await expect(lab.snapshot(a, { journal })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    lab.backend.faults.heal()
    expect(lab.object(ACTIVE)).toBe('')
    const b = lab.host({ empty: true })
    await lab.hydrate(b, { onMixed: 'fail' })
    expect(await seqsOf(b)).toEqual(upTo(5))
    // The orphan is in the bucket, and not in the tree: its later events were never committed.
    expect(lab.backend.objects.has(`${TREE_KEY}/journal/events-001.jsonl.zst`)).toBe(true)
    expect(readFileSync(join(b.dir, ACTIVE), 'utf8').split('\n')).toHaveLength(6)
  })

  it('without its sealed segment is reported as mixed, and with a damaged one too', async () => {
    append(5)
    await lab.snapshot(a, { journal })
    await appendAndRotate(3)
    lab.backend.faults.failWhen(({ key }) => key.endsWith('manifest.json'))
    await expect(lab.snapshot(a, { journal })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    lab.backend.faults.heal()
    for (const content of ['not a segment', undefined]) {
      lab.plant(`${TREE_KEY}/journal/events-001.jsonl.zst`, content)
      for (const [, store] of stores()) {
        const { mixed } = await lab.hydrate(lab.host({ empty: true }), { store })
        expect(mixed).toMatchObject({ generation: 1, paths: [ACTIVE] })
      }
    }
  })

  it('is not repaired where the store can not be listed, and that is a mixture and no crash', async () => {
    append(5)
    await lab.snapshot(a, { journal })
    lab.plant(`${TREE_KEY}/${ACTIVE}`, '')
    const denied = Object.assign(new Error('denied'), { errorClass: 'permission' })
    lab.backend.faults.failWhen(({ op }) => op === 'list', denied)
    expect((await lab.hydrate(lab.host({ empty: true }))).mixed).toMatchObject({ paths: [ACTIVE] })
    lab.backend.faults.heal()
    lab.backend.faults.failWhen(({ op }) => op === 'list')
    await expect(lab.hydrate(lab.host({ empty: true }))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('two hosts in turn', () => {
  it('carry one journal on, with a rotation on each', async () => {
    await appendAndRotate(4)
    append(1)
    await lab.snapshot(a, { journal })
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    const other = await open(b)
    expect(other.lastSeq).toBe(5)
    append(2, other)
    await other.turnEnded()
    append(1, other)
    await lab.snapshot(b, { journal: other })
    await other.close()
    const c = lab.host({ empty: true })
    await lab.hydrate(c, { onMixed: 'fail' })
    expect(await seqsOf(c)).toEqual(upTo(8))
  })
})
