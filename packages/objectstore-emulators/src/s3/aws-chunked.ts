import { Refusal } from './refusal.ts'

type State = 'size' | 'data' | 'data-end' | 'trailers'

/**
 * Takes the framing of `aws-chunked` off a body: `HEX-SIZE[;chunk-signature=...]\r\n DATA \r\n ... 0\r\n [trailers]\r\n`.
 *
 * @param trailers filled with the trailing headers, names in lower case, once the body has ended
 */
export async function* decodeAwsChunked(
  body: AsyncIterable<Buffer>,
  trailers: Map<string, string>,
): AsyncGenerator<Buffer> {
  let pending: Buffer = Buffer.alloc(0)
  let left = 0
  let state = 'size' as State
  for await (const chunk of body) {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    for (;;) {
      if (state === 'data') {
        const take = pending.subarray(0, left)
        left -= take.length
        pending = pending.subarray(take.length)
        if (take.length > 0) yield take
        if (left > 0) break
        state = 'data-end'
      }
      const end = pending.indexOf('\r\n')
      if (end < 0) break
      const line = pending.toString('latin1', 0, end)
      pending = pending.subarray(end + 2)
      if (state === 'data-end') state = 'size'
      else if (state === 'size') {
        left = Number.parseInt(line, 16)
        if (!Number.isInteger(left)) throw new Refusal(400, 'InvalidRequest', 'The chunk framing is broken.')
        state = left === 0 ? 'trailers' : 'data'
      } else if (line !== '') {
        const colon = line.indexOf(':')
        trailers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim())
      }
    }
  }
  if (state !== 'trailers') throw new Refusal(400, 'IncompleteBody', 'The request body terminated unexpectedly')
}
