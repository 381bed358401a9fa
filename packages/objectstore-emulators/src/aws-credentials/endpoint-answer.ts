/** What an endpoint answers. */
export interface EndpointAnswer {
  status: number
  headers?: Record<string, string>
  contentType: string
  body: string
}

export function json(status: number, value: unknown): EndpointAnswer {
  return { status, contentType: 'application/json', body: JSON.stringify(value) }
}

export function plain(status: number, body: string): EndpointAnswer {
  return { status, contentType: 'text/plain', body }
}

export function xml(status: number, body: string): EndpointAnswer {
  return { status, contentType: 'text/xml', body }
}
