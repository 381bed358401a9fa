import { describe, expect, it } from 'vitest'
import { eventRows } from '../bus/events.ts'
import { configJsonSchema } from './json-schema.ts'
import { configKeys } from './config-keys.ts'

/** A misspelled column would be one that nothing reads. The compiler finds the missing ones, not these. */
const unknown = (row: object, columns: string): string[] =>
  Object.keys(row).filter((column) => !columns.split(' ').includes(column))

describe('the table of keys', () => {
  it('has no column that nothing reads', () => {
    const columns = 'kind whose doc as default pattern must min max of notYet by values'
    expect([...configKeys()].flatMap(([, key]) => unknown(key, columns))).toEqual([])
  })

  it('describes every key to editors', () => {
    interface Block {
      properties?: Record<string, Block>
      additionalProperties?: Block | false
      description?: string
    }
    const undescribed = [...configKeys()].filter(([path, { doc }]) => {
      const found = path.reduce<Block | undefined>(
        (block, name) => (name === '*' ? (block?.additionalProperties as Block) : block?.properties?.[name]),
        configJsonSchema() as Block,
      )
      return found?.description !== doc
    })
    expect(undescribed).toEqual([])
  })
})

describe('the table of events', () => {
  it('has no column that nothing reads', () => {
    const columns = 'summary version vetoable writtenAhead sideEffect fields open'
    const odd = eventRows().flatMap(([, row]) => [
      ...unknown(row, columns),
      ...Object.values(row.fields ?? {}).flatMap((field) => unknown(field, 'kind doc optional')),
    ])
    expect(odd).toEqual([])
  })
})
