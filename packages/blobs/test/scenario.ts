import { createHash } from 'node:crypto'

export interface ScenarioBlob {
  data: Buffer
  mediaType: string
  streamed: boolean
}

/** Some small and some larger blobs, the same in every process. */
export const scenarioBlobs: readonly ScenarioBlob[] = Array.from({ length: 6 }, (_, index) => ({
  data: Buffer.alloc(1000 + index * 20_000, `blob ${index}`),
  mediaType: `type/${index}`,
  streamed: index % 2 === 1,
}))

export function sha256Of(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
