import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EMULATOR_CREDENTIALS, openS3Emulator, type S3Emulator } from './emulator.ts'
import { runS3Scenario, type StepOutcome } from './scenario.ts'
import { createSignedClient } from './signed-client.ts'

const { NEXUS_TEST_S3_ENDPOINT, NEXUS_TEST_S3_ACCESS_KEY_ID, NEXUS_TEST_S3_SECRET_ACCESS_KEY } = process.env

let emulator: S3Emulator
let outcomes: StepOutcome[]

beforeAll(async () => {
  emulator = await openS3Emulator()
  outcomes = await runS3Scenario(createSignedClient(emulator.url, EMULATOR_CREDENTIALS), 'scenario')
})

afterAll(() => emulator.close())

function outcomeOf(step: string): StepOutcome | undefined {
  return outcomes.find((outcome) => outcome.step === step)
}

describe('the S3 emulator', () => {
  it('answers each call of the scenario', () => {
    expect(outcomes.filter(({ status }) => status >= 500)).toEqual([])
    expect(outcomeOf('create a taken key')).toMatchObject({ status: 412, code: 'PreconditionFailed' })
    expect(outcomeOf('see who won')).toMatchObject({ seen: 'first' })
    expect(outcomeOf('get a missing key')).toMatchObject({ status: 404, code: 'NoSuchKey' })
    expect(outcomeOf('sign with a wrong secret')).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
  })

  it('agrees with a real store in every status, error code, digest and listing', async (context) => {
    if (NEXUS_TEST_S3_ENDPOINT === undefined || NEXUS_TEST_S3_ENDPOINT === '') {
      const reason = 'NEXUS_TEST_S3_ENDPOINT names no real store to compare the emulator with'
      process.emitWarning(reason)
      context.skip(reason)
      return
    }
    const keys = {
      accessKeyId: NEXUS_TEST_S3_ACCESS_KEY_ID ?? '',
      secretAccessKey: NEXUS_TEST_S3_SECRET_ACCESS_KEY ?? '',
    }
    const bucket = `scenario-${process.pid}-${Date.now()}`
    const real = await runS3Scenario(createSignedClient(NEXUS_TEST_S3_ENDPOINT, keys), bucket)
    expect(outcomes).toEqual(real)
  })
})
