import { escapeXml } from './xml.ts'

/** A request that is answered with an error. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly headers: Record<string, string>
  /** More elements of the error document. */
  readonly fields: Record<string, string>

  constructor(
    status: number,
    code: string,
    message: string,
    { headers = {}, fields = {} }: { headers?: Record<string, string>; fields?: Record<string, string> } = {},
  ) {
    super(message)
    this.name = 'Refusal'
    this.status = status
    this.code = code
    this.headers = headers
    this.fields = fields
  }
}

/** The error document of S3. */
export function errorDocument(refusal: Refusal, resource: string, requestId: string): string {
  const fields = {
    Code: refusal.code,
    Message: refusal.message,
    ...refusal.fields,
    Resource: resource,
    RequestId: requestId,
  }
  const elements = Object.entries(fields).map(([name, value]) => `<${name}>${escapeXml(value)}</${name}>`)
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error>${elements.join('')}</Error>`
}

export function noSuchKey(key: string): Refusal {
  return new Refusal(404, 'NoSuchKey', 'The specified key does not exist.', { fields: { Key: key } })
}

export function preconditionFailed(): Refusal {
  const message = 'At least one of the pre-conditions you specified did not hold'
  return new Refusal(412, 'PreconditionFailed', message, { fields: { Condition: 'If-None-Match' } })
}
