import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Logger, objectStoreConfig } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseS3Options } from '../options.ts'
import { UploadRecords } from './upload-records.ts'

let root: string
const drop = (): void => undefined
const logger: Logger = { debug: drop, info: drop, warn: drop, error: drop }

beforeEach(() => {
  root = join(mkdtempSync(join(tmpdir(), 'nexus-s3-records-')), 'state')
})

afterEach(() => rmSync(dirname(root), { recursive: true }))

function records(parts: { bucket?: string; prefix?: string } = {}): UploadRecords {
  const options = { state_directory: root }
  const config = { backend: 's3', bucket: 'bucket', region: 'eu-west-1', options, ...parts }
  return new UploadRecords(parseS3Options(objectStoreConfig(config)), logger)
}

function files(): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'))
}

/** The note of an upload as a process that has ended would have left it. */
function abandonedNote(own: string, text: string): void {
  const [scope] = own.split('/').at(-1)?.split('-') ?? []
  // A pid that the kernel never gives.
  writeFileSync(join(dirname(own), `${scope}-4194305-1-0-0.json`), text)
}

describe('the notes of uploads', () => {
  it('are private, and gone once they are removed', () => {
    const notes = records()
    const note = notes.add('s/a', 'upload-1')
    expect(files()).toHaveLength(1)
    expect(statSync(note?.path ?? '').mode & 0o077).toBe(0)
    expect(statSync(dirname(note?.path ?? '')).mode & 0o077).toBe(0)
    if (note !== undefined) notes.remove(note)
    expect(files()).toEqual([])
  })

  it('of a living process are nobody else’s', () => {
    records().add('s/a', 'upload-1')
    expect(records().takeAbandoned()).toEqual([])
    expect(files()).toHaveLength(1)
  })

  it('of an ended one are given to one taker, who keeps them until they are removed', () => {
    const own = records().add('s/a', 'upload-1')?.path ?? ''
    abandonedNote(own, '{"key":"s/b","uploadId":"upload-2"}')
    const taken = records().takeAbandoned()
    expect(taken).toMatchObject([{ key: 's/b', uploadId: 'upload-2' }])
    expect(records().takeAbandoned()).toEqual([])
    expect(files()).toHaveLength(2)
    for (const note of taken) records().remove(note)
    expect(files()).toHaveLength(1)
  })

  it('that a kill cut short are dropped', () => {
    const own = records().add('s/a', 'upload-1')?.path ?? ''
    abandonedNote(own, '{"key":"s/b","upl')
    expect(records().takeAbandoned()).toEqual([])
    expect(files()).toHaveLength(1)
  })

  it('of another boot, host or container stay, whatever their pid says here', () => {
    const own = records().add('s/a', 'upload-1')?.path ?? ''
    writeFileSync(join(dirname(own), '0123456789ab-4194305-1-0-0.json'), '{"key":"s/b","uploadId":"upload-2"}')
    expect(records().takeAbandoned()).toEqual([])
    expect(files()).toHaveLength(2)
  })

  it.each([{ bucket: 'other' }, { prefix: 'other' }])('of another store are not looked at: %j', (parts) => {
    const own = records().add('s/a', 'upload-1')?.path ?? ''
    abandonedNote(own, '{"key":"s/b","uploadId":"upload-2"}')
    expect(records(parts).takeAbandoned()).toEqual([])
  })
})
