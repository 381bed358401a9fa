// Run by `node --test`, not by vitest: the contract suite under another runner. `mutant` in the environment names one of the
// backends that must fail.
import { describe, it } from 'node:test'
import { describeBackendContract } from '@nexus/objectstore-contract'
import { createMemoryBackend, withoutCapabilities } from '../src/driver.ts'
import { mutants } from './mutants/mutants.ts'
import { plant } from './plant.ts'

const mutant = mutants.find(({ name }) => name === process.env['MUTANT'])
const newBackend = mutant?.open ?? (() => createMemoryBackend())

describeBackendContract(newBackend, { describe, it, listProbeCount: 60, plant })

if (mutant === undefined) {
  describeBackendContract(() => withoutCapabilities(createMemoryBackend(), ['get']), {
    describe,
    it,
    title: 'without get',
    listProbeCount: 60,
  })
}
