import { describe, expect, it } from 'vitest'
import { decodeAwsChunked } from './aws-chunked.ts'

async function* inPieces(text: string, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += size) yield Buffer.from(text.slice(at, at + size))
}

async function decode(text: string, size: number): Promise<{ body: string; trailers: Map<string, string> }> {
  const trailers = new Map<string, string>()
  const chunks: Buffer[] = []
  for await (const chunk of decodeAwsChunked(inPieces(text, size), trailers)) chunks.push(chunk)
  return { body: Buffer.concat(chunks).toString(), trailers }
}

describe('aws-chunked framing', () => {
  it.each([1, 2, 3, 7, 1000])('comes off with its trailers, in pieces of %d bytes', async (size) => {
    const framed = '5;chunk-signature=abc\r\nhello\r\n7\r\n, \r\n0\r\n\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n'
    const { body, trailers } = await decode(framed, size)
    expect(body).toBe('hello, \r\n0\r\n')
    expect([...trailers]).toEqual([['x-amz-checksum-crc32', 'AAAAAA==']])
  })

  it('that ends early is refused', async () => {
    await expect(decode('5\r\nhel', 3)).rejects.toMatchObject({ code: 'IncompleteBody' })
  })
})
