import {
  InvalidKeyError,
  isInvalidKeyError,
  isNexusError,
  NexusError,
  ObjectFailure,
  ObjectNotFoundError,
} from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { onLocal } from './object/copy-file.ts'
import { classifyFsError, fromWire, toWire } from './errors.ts'

function system(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: boom`), { code, errno: -1, syscall: 'open', path: '/b/x' })
}

/** As it would arrive on the main thread. */
function crossed(error: unknown, key?: string): Error {
  return fromWire(structuredClone(toWire(error)), 'put', key)
}

describe('an error that crosses the threads', () => {
  it('keeps the fields of a system error, and gains operation and key', () => {
    expect(crossed(system('ENOSPC'), 'a/b')).toMatchObject({
      name: 'Error',
      message: 'ENOSPC: boom',
      code: 'ENOSPC',
      syscall: 'open',
      path: '/b/x',
      op: 'put',
      key: 'a/b',
    })
  })

  it('keeps its kind, code and cause', () => {
    const outcome = new NexusError('OUTCOME_UNKNOWN', 'lost', { op: 'x', cause: system('EIO') })
    const error = crossed(outcome, 'k')
    expect(isNexusError(error, 'OUTCOME_UNKNOWN')).toBe(true)
    expect(error).toMatchObject({ op: 'objectstore.put', key: 'k', message: 'lost', cause: { code: 'EIO' } })
    expect(isInvalidKeyError(crossed(new InvalidKeyError('a//b', 'has an empty segment')))).toBe(true)
    expect(crossed(new ObjectNotFoundError('k'))).toBeInstanceOf(ObjectNotFoundError)
    expect(crossed(new ObjectFailure('k', system('EACCES')))).toMatchObject({ key: 'k', cause: { code: 'EACCES' } })
    expect(crossed('text').message).toBe('text')
  })

  it('tells the bucket from the local file', () => {
    const local = ((): unknown => {
      try {
        return onLocal('/mine', () => {
          throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
        })
      } catch (error) {
        return error
      }
    })()
    expect(crossed(local)).toMatchObject({ local: true, path: '/mine' })
    expect(classifyFsError(crossed(local))).toBeUndefined()
    expect(classifyFsError(crossed(system('ENOSPC')))).toBe('temporary')
  })
})

describe('classifyFsError', () => {
  it.each([
    ['EACCES', 'permission'],
    ['EROFS', 'permission'],
    ['ESTALE', 'temporary'],
    ['ENOENT', 'temporary'],
    ['EIO', 'temporary'],
    ['ENAMETOOLONG', 'permanent'],
    ['EWHATEVER', undefined],
  ])('takes %s of the bucket for %s', (code, expected) => {
    expect(classifyFsError(crossed(system(code)))).toBe(expected)
  })

  it('says nothing about errors of others', () => {
    expect(classifyFsError(system('EIO'))).toBeUndefined()
    expect(classifyFsError(undefined)).toBeUndefined()
  })
})
