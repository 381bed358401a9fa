import { describe, expect, it } from 'vitest'
import { commitMarker, parseMarker, serializeMarker } from './marker.ts'
import type { Manifest } from './manifest/manifest.ts'
import { pathRecord } from '../tree/committed.ts'

const manifest: Manifest = {
  _schema_version: 2,
  session_id: 's1',
  generation: 3,
  nonce: 'n',
  instance_id: 'i',
  completed_at: '2026-01-01T00:00:00Z',
  key_prefix: 'sessions/s1',
  objects: ['a', 'b'],
  entries: pathRecord(),
  dirs: pathRecord(),
  links: pathRecord(),
  journal: { last_seq: 1 },
  unstored: [],
}
const marker = commitMarker(manifest, { sequence: 5, trigger: 'turn', turnId: 't1', bytes: 42 })

describe('the commit marker', () => {
  it('names the manifest, the generation and the run', () => {
    expect(marker).toEqual({
      _schema_version: 1,
      session_id: 's1',
      key_prefix: 'sessions/s1',
      generation: 3,
      manifest_key: 'sessions/s1.manifest/manifest.json',
      sequence: 5,
      trigger: 'turn',
      turn_id: 't1',
      completed_at: '2026-01-01T00:00:00Z',
      objects: 2,
      bytes: 42,
    })
    expect(commitMarker(manifest, { sequence: 1, trigger: 'shutdown', bytes: 0 }).turn_id).toBe('')
  })

  it('reads back as it was written', () => {
    expect(parseMarker(serializeMarker(marker), 's1')).toEqual(marker)
    expect(parseMarker(Buffer.from(serializeMarker(marker)), 's1')).toEqual(marker)
  })

  it('is refused when it is cut, garbage or of another session', () => {
    const text = serializeMarker(marker).trimEnd()
    const corrupt = expect.objectContaining({ code: 'CORRUPT', key: 'sessions/s1.snapshot.json' })
    for (let length = 0; length < text.length; length++) {
      expect(() => parseMarker(text.slice(0, length), 's1')).toThrowError(corrupt)
    }
    for (const bytes of ['[]', 'null', Buffer.from([0xff])])
      expect(() => parseMarker(bytes, 's1')).toThrowError(corrupt)
    const wrong = [{ session_id: 's2' }, { generation: -1 }, { objects: '2' }, { trigger: 1 }]
    for (const fields of wrong) {
      expect(() => parseMarker(JSON.stringify({ ...marker, ...fields }), 's1')).toThrowError(corrupt)
    }
  })

  it('is refused with both versions named when its schema is unknown', () => {
    expect(() => parseMarker(JSON.stringify({ ...marker, _schema_version: 9 }), 's1')).toThrowError(
      expect.objectContaining({ code: 'UNSUPPORTED', message: expect.stringMatching(/version 9.*reads 1/s) }),
    )
  })
})
