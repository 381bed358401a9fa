import { appendFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { newDir } from '../../test/memory-store.ts'
import { noFailpoint, silentLogger } from '@nexus/host'
import {
  isOurCommit,
  machineRecordPath,
  MachineRecordFile,
  readMachineRecord,
  removeMachineRecord,
} from './machine-record.ts'

function newRecord(root: string, { bootId = 'boot-1', failpoint = noFailpoint } = {}): MachineRecordFile {
  return new MachineRecordFile(root, 's1', { bootId, failpoint, logger: silentLogger })
}

const pair = (generation: number) => ({ generation, nonce: `nonce-${generation}` })

describe('the machine record', () => {
  it('is unknown for a session that never ran here', () => {
    expect(readMachineRecord(newDir(), 's1')).toBeUndefined()
    expect(isOurCommit(undefined, pair(1))).toBe(false)
  })

  it('has the pair on disk before the commit may happen', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({})
    await record.aboutToCommit(pair(1))
    const found = readMachineRecord(root, 's1')
    expect(found).toMatchObject({ pending: [pair(1)], clean: false, bootId: 'boot-1' })
    expect(isOurCommit(found, pair(1))).toBe(true)
    expect(isOurCommit(found, { generation: 1, nonce: 'nonce-2' })).toBe(false)
    expect(isOurCommit(found, { generation: 2, nonce: 'nonce-1' })).toBe(false)
    await record.close()
  })

  it('knows after a kill which commit was acknowledged last', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({ mixedFrom: { generation: 0, paths: [] } })
    await record.aboutToCommit(pair(1))
    record.committed(pair(1), 10)
    await record.aboutToCommit(pair(2))
    await record.close()
    const found = readMachineRecord(root, 's1')
    expect(found).toMatchObject({ committed: pair(1), lastSeq: 10, pending: [pair(1), pair(2)] })
    expect(found?.mixedFrom).toBeUndefined()
  })

  it('remembers every attempt whose answer was lost', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({ committed: pair(1), lastSeq: 10 })
    for (let generation = 2; generation <= 9; generation++) await record.aboutToCommit(pair(generation))
    await record.close()
    const found = readMachineRecord(root, 's1')
    for (let generation = 1; generation <= 9; generation++) expect(isOurCommit(found, pair(generation))).toBe(true)
    expect(found?.committed).toEqual(pair(1))
  })

  it('keeps the last committed pair however many attempts follow, and stays small', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({})
    await record.aboutToCommit(pair(1))
    record.committed(pair(1), 10)
    for (let generation = 2; generation <= 1_500; generation++) await record.aboutToCommit(pair(generation))
    await record.end({ clean: true, stored: false })
    const found = readMachineRecord(root, 's1')
    expect(found).toMatchObject({ committed: pair(1), lastSeq: 10, clean: true, stored: false })
    expect(found?.pending).toHaveLength(64)
    expect(statSync(machineRecordPath(root, 's1')).size).toBeLessThan(128 * 1024)
  })

  it('says that a run ended cleanly, until the next one begins', async () => {
    const root = newDir()
    const first = newRecord(root)
    await first.begin({})
    await first.aboutToCommit(pair(1))
    first.committed(pair(1), 7)
    await first.end({ clean: true, stored: true })
    const found = readMachineRecord(root, 's1')
    expect(found).toMatchObject({ clean: true, stored: true, committed: pair(1), lastSeq: 7 })
    const second = newRecord(root, { bootId: 'boot-2' })
    await second.begin({ ...found })
    expect(readMachineRecord(root, 's1')).toMatchObject({
      clean: false,
      stored: false,
      bootId: 'boot-1',
      committed: pair(1),
    })
    await second.close()
  })

  it('carries a mixture until a commit has repeated it', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({ committed: pair(3), mixedFrom: { generation: 3, paths: ['a', 'b'] } })
    expect(readMachineRecord(root, 's1')?.mixedFrom).toEqual({ generation: 3, paths: ['a', 'b'] })
    await record.aboutToCommit(pair(4))
    expect(readMachineRecord(root, 's1')?.mixedFrom).toEqual({ generation: 3, paths: ['a', 'b'] })
    record.committed(pair(4), 9)
    await record.end({ clean: true, stored: true })
    expect(readMachineRecord(root, 's1')?.mixedFrom).toBeUndefined()
  })

  it('ignores a torn last line: its commit was never put', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({ committed: pair(1) })
    await record.aboutToCommit(pair(2))
    await record.aboutToCommit(pair(3))
    await record.close()
    appendFileSync(machineRecordPath(root, 's1'), '{"generation":4,"non')
    const found = readMachineRecord(root, 's1')
    expect(found?.pending).toEqual([pair(2), pair(3)])
  })

  it.each(['', 'garbage', 'null', '[]', '{"_schema_version":99,"boot_id":"x"}', '{"_schema_version":1}'])(
    'knows nothing of a tree whose record is %j',
    (text) => {
      const root = newDir()
      mkdirSync(dirname(machineRecordPath(root, 's1')), { recursive: true })
      writeFileSync(machineRecordPath(root, 's1'), text)
      expect(readMachineRecord(root, 's1')).toBeUndefined()
    },
  )

  it('rejects when the disk refuses, and writes the pair whole at the next try', async () => {
    const root = newDir()
    let full = false
    const record = newRecord(root, {
      failpoint: (name) => {
        if (full && name === 'machine-record:before-append')
          throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
      },
    })
    await record.begin({})
    full = true
    await expect(record.aboutToCommit(pair(1))).rejects.toThrow('ENOSPC')
    full = false
    await record.aboutToCommit(pair(2))
    expect(isOurCommit(readMachineRecord(root, 's1'), pair(2))).toBe(true)
    await record.close()
  })

  it('is forgotten with its session, also when there is none', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({})
    await record.close()
    await removeMachineRecord(root, 's1')
    await removeMachineRecord(root, 's1')
    expect(readMachineRecord(root, 's1')).toBeUndefined()
  })

  it('is readable by its owner alone', async () => {
    const root = newDir()
    const record = newRecord(root)
    await record.begin({})
    await record.close()
    expect(statSync(machineRecordPath(root, 's1')).mode & 0o777).toBe(0o600)
    expect(readFileSync(machineRecordPath(root, 's1'), 'utf8')).toContain('"boot_id":"boot-1"')
  })
})
