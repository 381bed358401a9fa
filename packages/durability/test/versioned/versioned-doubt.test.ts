import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { readSessionRecord, SessionRecordFile } from '../../src/versioned/record-file.ts'
import { versionedOf } from '../layout-of.ts'
import { newDir, newStore } from '../memory-store.ts'
import { TestHost, type HostOptions } from '../test-host.ts'
import { SessionFixture } from './session-fixture.ts'

async function boot(options: HostOptions = {}): Promise<TestHost> {
  return await TestHost.boot({ layoutName: 'versioned', ...options })
}

/** Every create lands, and its answer is lost. */
function loseAnswers({ backend: { faults } }: TestHost): void {
  faults.heal()
  faults.applyThenFail(faults.calls.length + 1)
}

async function turnInStore({ backend }: TestHost): Promise<string> {
  const reader = await boot({ backend })
  const turn = readFileSync(join(reader.dir, 'files/turn.txt'), 'utf8')
  await reader.stop()
  return turn
}

describe('a versioned session', () => {
  it('is not committed from a tree that was rolled back while the store was down', async () => {
    const first = await boot()
    await first.turn('t1')
    const copy = join(newDir('copy'), 's1')
    cpSync(first.dir, copy, { recursive: true })
    await first.turn('t2')
    await first.kill()
    rmSync(first.dir, { recursive: true })
    cpSync(copy, first.dir, { recursive: true })
    first.backend.faults.failWhen(() => true)
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(again.resolution).toMatchObject({ tree: 'local', undecided: expect.anything() as unknown })
    first.backend.faults.heal()
    await again.turn('t3', () => again.write('files/other.txt', 'x'))
    expect(again.seen('session.owner.lost')).toHaveLength(1)
    await again.kill()
    expect(await turnInStore(first)).toBe('t2')
  })

  it('stays ours when the answers of two commits are lost one after the other', async () => {
    const host = await boot()
    await host.turn('t1')
    loseAnswers(host)
    await host.turn('t2')
    const { faults } = host.backend
    let puts = 0
    faults.heal()
    // The one that is unresolved goes out again and is found; the next one lands, and its answer is lost.
    faults.failWhen(({ op }) => op === 'flush' && ++puts === 2)
    await host.turn('t3')
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    faults.heal()
    await host.turn('t4')
    expect(host.seen('session.owner.lost')).toEqual([])
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await host.stop()
    expect(await turnInStore(host)).toBe('t4')
  })

  it('forgets packs that have become too old to be named', async () => {
    const first = await boot()
    await first.stop()
    const [young, old] = [1, -200].map((number) => ({ name: { number, attempt: 'a'.repeat(16), n: 0 }, sizeBytes: 1 }))
    for (const pack of [young, old])
      appendFileSync(join(first.dir, 'session.record.jsonl'), `${JSON.stringify({ pack })}\n`)
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(readSessionRecord(again.dir)?.packs).toEqual([young])
    await again.stop()
  })

  it('stays ours when the answer of its very first commit is lost', async () => {
    const host = new TestHost({ layoutName: 'versioned' })
    const { faults } = host.backend
    faults.failWhen(({ op }) => op === 'flush')
    await host.boot()
    faults.heal()
    await host.turn('t1')
    expect(host.seen('session.owner.lost')).toEqual([])
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await host.stop()
    expect(await turnInStore(host)).toBe('t1')
  })
})

describe('the record of a tree', () => {
  it('is the one file that everybody writes to who opens it at the same moment', async () => {
    const root = tempDir()
    const treeDir = join(root, 's1')
    mkdirSync(treeDir)
    const blob = join(root, 'blob')
    writeFileSync(blob, Buffer.alloc(300_000, 'blob'))
    const passed = new Set<string>()
    let release = (): void => undefined
    const isFirstDone = new Promise<void>((resolve) => (release = resolve))
    // Another file would come into its place after the first line was written.
    const failpoint = async (name: string): Promise<void> => {
      if (passed.has(name) && name !== 'session-record:before-append') await isFirstDone
      passed.add(name)
    }
    const layout = versionedOf(newStore().store, 's1', root, { failpoint })
    const { signal } = new AbortController()
    const pushes = ['blobs/1', 'blobs/2'].map((path) => layout.pushBlob(path, blob, signal))
    await Promise.race(pushes)
    release()
    await Promise.all(pushes)
    await layout.chain?.close()
    expect(readSessionRecord(treeDir)?.packs).toHaveLength(2)
  })

  it('keeps a line that follows one which the disk took only half of', async () => {
    const dir = tempDir()
    let isFull = false
    const failpoint = (name: string): void => {
      if (!isFull || name !== 'session-record:before-append') return
      appendFileSync(join(dir, 'session.record.jsonl'), '{"attempt":{"gener')
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    }
    const record = await SessionRecordFile.open(dir, { failpoint })
    const attempt = { generation: 2, digest: 'b'.repeat(64) }
    isFull = true
    await expect(record.add({ attempt })).rejects.toMatchObject({ code: 'LOCAL_IO' })
    isFull = false
    await record.add({ attempt })
    await record.close()
    expect(readSessionRecord(dir)?.attempts).toEqual([attempt])
  })
})

describe('a commit', () => {
  it('goes on with rereading where the one before it stopped', async () => {
    const session = new SessionFixture()
    session.write('files/a', 'a')
    await session.commit()
    const position = { path: 'files/a', chunk: 1 }
    if (session.state !== undefined) session.state.rereadFrom = position
    await session.claim()
    expect(session.state?.rereadFrom).toEqual(position)
  })

  it('flushes a pack that an attempt before it left unflushed', async () => {
    const session = new SessionFixture()
    session.write('files/large', Buffer.from(Array.from({ length: 1_500_000 }, () => Math.random() * 256)))
    await session.prepare()
    const { faults } = session.backend
    const before = faults.calls.length
    await session.prepare()
    expect(faults.calls.slice(before).map(({ op }) => op)).toEqual(['flush'])
  })
})
