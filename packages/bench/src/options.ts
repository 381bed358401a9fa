import { parseArgs } from 'node:util'

/** How the command was called. */
export interface BenchOptions {
  /** Ids of the benches to run; all when undefined. */
  only: readonly string[] | undefined
  quick: boolean
  format: 'table' | 'markdown' | 'json'
}

export const USAGE = `usage: pnpm bench [--only P4,P5] [--quick] [--json | --markdown]`

/**
 * Reads the command line; `known` are the ids that exist.
 *
 * @throws Error with a sentence for the person who called
 */
export function readOptions(args: readonly string[], known: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    // pnpm hands its own separator on.
    args: args.filter((arg) => arg !== '--'),
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
    },
  })
  const only = values.only?.split(',').map((id) => id.trim().toUpperCase())
  const unknown = only?.find((id) => !known.includes(id))
  if (unknown !== undefined) throw new Error(`there is no bench ${unknown}; there are ${known.join(', ')}`)
  if (values.json && values.markdown) throw new Error('--json and --markdown exclude each other')
  return { only, quick: values.quick, format: values.json ? 'json' : values.markdown ? 'markdown' : 'table' }
}
