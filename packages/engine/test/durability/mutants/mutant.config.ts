import { join } from 'node:path'
import { mergeConfig, type Plugin, type ViteUserConfig } from 'vitest/config'
import base from '../../../../../vitest.config.ts'
import { MUTANTS } from './mutants.ts'

const mutant = MUTANTS.find(({ name }) => name === process.env['NEXUS_MUTANT'])
if (mutant === undefined) throw new Error('NEXUS_MUTANT names no mutant')
const target = join(import.meta.dirname, '../../../src/durability', mutant.file)

/** Makes the one mistake in the one file as it is loaded; the sources stay as they are. */
const mistake: Plugin = {
  name: 'mutant',
  enforce: 'pre',
  transform(code, id) {
    if (id.split('?')[0] !== target) return undefined
    if (code.split(mutant.find).length !== 2)
      throw new Error(`${mutant.file} does not hold the text of "${mutant.name}" once`)
    return { code: code.replace(mutant.find, () => mutant.replace), map: null }
  },
}

const config: ViteUserConfig = mergeConfig(base, { plugins: [mistake], test: { bail: 1, testTimeout: 120_000 } })

export default config
