import { createHash } from 'node:crypto'
import {
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { readSwept } from '../format/swept.ts'
import { JournalReader } from '../read/reader.ts'
import { verify } from '../read/verify.ts'
import { rewind } from '../rewind/rewind.ts'
import { sweep, type CommittedSegment, type SweepClaim } from './sweep.ts'

const clock = new ManualClock()

/** A session with sealed segments of ten events each, as old as said, and three events in the active one. */
async function session(root: string, id: string, days: number, segments = 3): Promise<string> {
  const dir = `${root}/${id}/journal`
  const writer = await openWriter(dir, { rotateBytes: 1 })
  for (let segment = 0; segment < segments; segment++) {
    for (let i = 0; i < 10; i++) writer.append(event('a'))
    await writer.snapshot(tempDir())
  }
  await writer.close()
  const last = await openWriter(dir)
  for (let i = 0; i < 3; i++) last.append(event('a'))
  await last.close()
  const time = (clock.now() - days * 86_400_000) / 1000
  for (const name of readdirSync(dir)) utimesSync(`${dir}/${name}`, time, time)
  return dir
}

function sealedIn(dir: string): string[] {
  return readdirSync(dir).filter((name) => name.endsWith('.zst'))
}

function committedOf(dir: string): Map<string, CommittedSegment> {
  return new Map(
    sealedIn(dir).map((name) => {
      const bytes = readFileSync(`${dir}/${name}`)
      return [name, { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }]
    }),
  )
}

/** Everything of every session is committed, less what `change` takes out. */
function claims(root: string, change: (committed: Map<string, CommittedSegment>) => void = () => undefined) {
  const held: string[] = []
  const claim = async (id: string): Promise<SweepClaim> => {
    held.push(`+${id}`)
    const committed = committedOf(`${root}/${id}/journal`)
    change(committed)
    return { committed, release: () => void held.push(`-${id}`) }
  }
  return { clock, claim, held }
}

const FIRST = 'events-001.jsonl.zst'

describe('sweep', () => {
  it('removes old sealed segments that a commit holds, and leaves a journal that is read and written on', async () => {
    const root = tempDir()
    const dir = await session(root, 'old', 31)
    const options = claims(root)
    expect(await sweep(root, 30, options)).toEqual(['old'])
    expect(options.held).toEqual(['+old', '-old'])
    expect(sealedIn(dir)).toEqual(['events-003.jsonl.zst'])
    expect(readSwept(dir)).toMatchObject([
      { name: FIRST, last_seq: 10 },
      { name: 'events-002.jsonl.zst', last_seq: 20 },
    ])
    expect(seqsOf(await readAll(dir))).toEqual(range(21, 33))
    expect(await verify(dir)).toMatchObject({ ok: true, firstSeq: 21, sweptSeq: 20 })
    const writer = await openWriter(dir, { rotateBytes: 1 })
    expect(writer.damage).toEqual([])
    expect(writer.append(event('next'))).toBe(34)
    await writer.snapshot(tempDir())
    await writer.close()
    expect(sealedIn(dir)).toEqual(['events-003.jsonl.zst', 'events-004.jsonl.zst'])
  })

  it('leaves young segments, sessions that were set aside, and what is no session alone', async () => {
    const root = tempDir()
    await session(root, 'young', 29)
    await session(root, '.stale-x', 99)
    writeFileSync(`${root}/file`, '')
    const options = claims(root)
    expect(await sweep(root, 30, options)).toEqual([])
    expect(options.held).toEqual([])
    expect(sealedIn(`${root}/.stale-x/journal`)).toHaveLength(3)
  })

  it.each<[string, (committed: Map<string, CommittedSegment>) => void]>([
    ['is not committed', (committed) => committed.delete(FIRST)],
    [
      'is committed with another size',
      (committed) => committed.set(FIRST, { ...(committed.get(FIRST) as CommittedSegment), sizeBytes: 1 }),
    ],
    [
      'is committed with other bytes',
      (committed) => committed.set(FIRST, { ...(committed.get(FIRST) as CommittedSegment), sha256: 'f'.repeat(64) }),
    ],
  ])('keeps a segment that %s, and all behind it', async (_, change) => {
    const root = tempDir()
    const dir = await session(root, 'a', 40)
    expect(await sweep(root, 30, claims(root, change))).toEqual([])
    expect(sealedIn(dir)).toHaveLength(3)
    expect(existsSync(`${dir}/swept.json`)).toBe(false)
  })

  it('keeps everything of a session that it is not given', async () => {
    const root = tempDir()
    const dir = await session(root, 'locked', 40)
    expect(await sweep(root, 30, { clock, claim: async () => undefined })).toEqual([])
    expect(sealedIn(dir)).toHaveLength(3)
  })

  it('can not be called without saying what is committed, or with a day that is no number', async () => {
    const root = tempDir()
    await expect(sweep(root, 30, {} as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(sweep(root, Number.NaN, claims(root))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await session(root, 'a', 400)
    expect(await sweep(root, 0, claims(root))).toEqual([])
    expect(await sweep(`${root}/none`, 30, claims(root))).toEqual([])
  })

  it('goes on behind a session that fails, and gives each claim back', async () => {
    const root = tempDir()
    await session(root, 'a', 40)
    const dir = await session(root, 'b', 40)
    writeFileSync(`${root}/a/journal/swept.json`, 'no list')
    const options = claims(root)
    expect(await sweep(root, 30, options)).toEqual(['b'])
    expect(options.held).toEqual(['+a', '-a', '+b', '-b'])
    expect(sealedIn(dir)).toHaveLength(1)
    const writer = await openWriter(`${root}/a/journal`)
    expect(writer.lastSeq).toBe(33)
    await writer.close()
  })

  it('follows no link', async () => {
    const root = tempDir()
    const outside = await session(tempDir(), 'victim', 40)
    await session(root, 'a', 40)
    symlinkSync(outside, `${root}/link`)
    symlinkSync(outside.replace(/journal$/, ''), `${root}/b`)
    await sweep(root, 30, claims(root))
    expect(sealedIn(outside)).toHaveLength(3)
  })

  it('counts a segment that was named and is still there, or has come back, as there', async () => {
    const root = tempDir()
    const dir = await session(root, 'a', 40)
    linkSync(`${dir}/${FIRST}`, `${root}/kept`)
    await sweep(root, 30, claims(root))
    linkSync(`${root}/kept`, `${dir}/${FIRST}`)
    const events = await readAll(dir)
    expect(seqsOf(events)).toEqual([...range(1, 10), ...range(21, 33)])
    expect(await verify(dir)).toMatchObject({ ok: true, sweptSeq: 20 })
    unlinkSync(`${dir}/${FIRST}`)
    expect(await verify(dir)).toMatchObject({ ok: true })
  })

  it('makes no damage of what is missing behind it', async () => {
    const root = tempDir()
    const dir = await session(root, 'a', 40)
    await sweep(root, 30, claims(root))
    unlinkSync(`${dir}/events-003.jsonl.zst`)
    const reader = await JournalReader.open(dir)
    for await (const _ of reader);
    expect(reader.damage).toMatchObject([{ kind: 'gap', seq: 21 }])
    const writer = await openWriter(dir)
    expect(writer.lastSeq).toBe(33)
    await writer.close()
  })

  it('lets a rewind go back to what is there, and no further', async () => {
    const root = tempDir()
    const dir = await session(root, 'a', 40)
    await sweep(root, 30, claims(root))
    await expect(rewind(dir, 19, { lock: 'private' })).rejects.toMatchObject({ code: 'PRECONDITION' })
    await rewind(dir, 25, { lock: 'private' })
    expect(seqsOf(await readAll(dir))).toEqual(range(21, 25))
    expect(await verify(dir)).toMatchObject({ ok: true })
  })
})
