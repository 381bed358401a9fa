import { NexusError } from '@nexus/errors'

/** Bytes of one stored object. */
export interface ObjectRange {
  /** The object's key, or its name below the prefix of the session. */
  object: string
  offset: number
  length: number
}

/** Stored bytes are not what was written. Code `CORRUPT`; names the object and where in it. */
export class DamagedObjectError extends NexusError {
  readonly range: ObjectRange

  constructor(range: ObjectRange, why: string, cause?: unknown) {
    const { object, offset, length } = range
    const place = length === 0 ? `at byte ${offset}` : `in bytes ${offset} to ${offset + length - 1}`
    super('CORRUPT', `object ${object} is damaged ${place}: ${why}`, { op: 'versioned.read', key: object, cause })
    this.name = 'DamagedObjectError'
    this.range = range
  }
}

/** A value as it stands in messages: quoted, and cut after 200 characters. */
export function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 200 ? text : `${text.slice(0, 200)}..."`
}
