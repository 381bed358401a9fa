import { lstatSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keepingLogger } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { toFileStat } from '../../src/tree/tree-stat.ts'
import { ChunkTable } from '../../src/versioned/store/chunk-table.ts'
import { isTrustedFileSystem, isUnchanged, trustedBefore } from '../../src/versioned/store/write/change-detection.ts'
import { FileRecord } from '../../src/versioned/store/file-record.ts'
import { SessionFixture } from './session-fixture.ts'

const SECOND_NS = 1_000_000_000n

/** Makes it look as if nothing had happened to a file since it was read, long ago. */
function hideChange(session: SessionFixture, path: string): void {
  const record = session.state?.files[path]
  if (record === undefined) throw new Error(`${path} is not committed`)
  record.stat = toFileStat(lstatSync(join(session.dir, path), { bigint: true }))
  session.lastStartNs = record.stat.ctimeNs + 10n * SECOND_NS
}

describe('a file', () => {
  const stat = { size: 5, mode: 0o600, mtimeNs: 100n * SECOND_NS, ctimeNs: 100n * SECOND_NS, ino: 7n, dev: 8n }
  const fields = { mode: 0o600, mtimeNs: stat.mtimeNs, size: 5, chunkSize: 65_536, chunks: [] }
  const record = new FileRecord(new ChunkTable(), fields, stat)

  const beforeNs = trustedBefore(103n * SECOND_NS)

  it('is unchanged when it looks the same and its times are older than the last snapshot, by a margin', () => {
    expect(isUnchanged(record, stat, beforeNs)).toBe(true)
    expect(isUnchanged(record, stat, trustedBefore(102n * SECOND_NS))).toBe(false)
    expect(isUnchanged(record, stat, trustedBefore(undefined))).toBe(false)
    expect(isUnchanged(new FileRecord(new ChunkTable(), fields), stat, beforeNs)).toBe(false)
  })

  it.each([
    ['size', 6],
    ['mtimeNs', 99n * SECOND_NS],
    ['ctimeNs', 99n * SECOND_NS],
    ['ino', 9n],
    ['dev', 9n],
  ])('is read again when its %s is another', (name, value) => {
    expect(isUnchanged(record, { ...stat, [name]: value }, beforeNs)).toBe(false)
  })
})

describe('content', () => {
  // Elsewhere all content is read each time.
  it.runIf(isTrustedFileSystem(tmpdir()))(
    'that counts as unchanged is not read, and is found by rereading when it changed all the same',
    async () => {
      const logger = keepingLogger()
      const session = new SessionFixture({ context: { logger } })
      session.write('files/a', 'before')
      session.write('files/b', 'b')
      await session.commit()
      session.write('files/a', 'after!')
      hideChange(session, 'files/a')
      hideChange(session, 'files/b')
      const next = await session.commit()
      expect(next.filesRead).toBe(1)
      expect((await session.contents())['files/a']).toBe('after!')
      expect(logger.lines).toMatchObject([{ level: 'warn', fields: { path: 'files/a' } }])
      hideChange(session, 'files/a')
      hideChange(session, 'files/b')
      expect((await session.commit()).filesRead).toBe(0)
    },
  )

  it('is all read each time where stats are not to be trusted', async () => {
    const session = new SessionFixture({ context: { verifyContent: 'always' } })
    session.write('files/a', 'before')
    await session.commit()
    session.write('files/a', 'after!')
    hideChange(session, 'files/a')
    expect((await session.commit()).filesRead).toBe(1)
    expect((await session.contents())['files/a']).toBe('after!')
  })
})
