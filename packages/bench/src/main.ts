import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: { only: { type: 'string' }, quick: { type: 'boolean' }, json: { type: 'boolean' } },
})

process.stdout.write(`benches selected: ${values.only ?? 'all'}\n`)
