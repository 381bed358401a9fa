import { NexusError } from '@nexus/errors'
import { expect, it } from 'vitest'
import { fromSqliteError, sqliteError } from './sqlite-error.ts'

it.each([
  ['SQLITE_NOTADB', 'CORRUPT', false],
  ['SQLITE_CORRUPT_VTAB', 'CORRUPT', false],
  ['SQLITE_BUSY_SNAPSHOT', 'LOCKED', true],
  ['SQLITE_LOCKED', 'LOCKED', true],
  ['SQLITE_FULL', 'LOCAL_IO', false],
  ['SQLITE_IOERR_FSYNC', 'LOCAL_IO', false],
  ['SQLITE_CANTOPEN', 'LOCAL_IO', false],
  ['SQLITE_READONLY_DBMOVED', 'PERMISSION', false],
  ['SQLITE_MISUSE', 'INTERNAL', false],
])('%s becomes %s', (sqlite, code, retryable) => {
  const cause = sqliteError(sqlite, 'words of SQLite')
  const error = fromSqliteError(cause, 'storage.put', 'Writing to plugin a', '/x/store.db')
  expect(error).toMatchObject({ code, retryable, op: 'storage.put', key: '/x/store.db', cause })
  expect(error.message).toContain(`Writing to plugin a failed: words of SQLite (${sqlite})`)
})

it('a system error is wrapped as one, a NexusError passes', () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
  expect(fromSqliteError(full, 'storage.snapshot', 'x', '/x')).toMatchObject({ code: 'LOCAL_IO', cause: full })
  const own = new NexusError('CLOSED', 'x')
  expect(fromSqliteError(own, 'storage.snapshot', 'x', '/x')).toBe(own)
  expect(fromSqliteError('text', 'storage.snapshot', 'x', '/x')).toMatchObject({ code: 'INTERNAL', cause: 'text' })
})
