import { describe, expect, it } from 'vitest'
import { fromSystemError, isNexusError, NexusError } from './index.ts'

describe('NexusError', () => {
  it('carries its code, operation, key and cause', () => {
    const cause = new Error('socket hang up')
    const error = new NexusError('UNAVAILABLE', 'put of a failed', { op: 'objectstore.put', key: 'a', cause })
    expect(error).toMatchObject({ code: 'UNAVAILABLE', op: 'objectstore.put', key: 'a', retryable: true, cause })
  })

  it('is retryable only where waiting helps, unless told otherwise', () => {
    expect(new NexusError('THROTTLED', 'x').retryable).toBe(true)
    expect(new NexusError('CORRUPT', 'x').retryable).toBe(false)
    expect(new NexusError('CORRUPT', 'x', { retryable: true }).retryable).toBe(true)
  })

  it('has no cause property when none was given', () => {
    expect('cause' in new NexusError('INTERNAL', 'x')).toBe(false)
  })
})

describe('isNexusError', () => {
  it('recognises an error of another installed copy', () => {
    const other = Object.create({ [Symbol.for('nexus.error/1')]: true }) as object
    Object.assign(other, { code: 'CORRUPT' })
    expect(isNexusError(other)).toBe(true)
    expect(isNexusError(other, 'CORRUPT')).toBe(true)
    expect(isNexusError(other, 'CLOSED')).toBe(false)
  })

  it('refuses everything else', () => {
    for (const value of [undefined, null, 'CORRUPT', new Error('x'), { code: 'CORRUPT' }]) {
      expect(isNexusError(value)).toBe(false)
    }
  })
})

describe('fromSystemError', () => {
  it.each([
    ['ENOENT', 'NOT_FOUND'],
    ['EACCES', 'PERMISSION'],
    ['ENOSPC', 'LOCAL_IO'],
  ])('maps %s to %s and keeps the cause', (system, code) => {
    const cause = Object.assign(new Error('boom'), { code: system })
    expect(fromSystemError(cause, 'open', '/x')).toMatchObject({ code, key: '/x', cause })
  })
})
